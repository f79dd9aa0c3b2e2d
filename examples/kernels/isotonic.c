/* Isotonic regression of rows: the nearest rows that never go down. */

#include <stdint.h>
#include <stdlib.h>

int fit_rows(const float* x, float* y, int64_t rows, int64_t columns) {
  double* mean = malloc(columns * sizeof(double));
  int64_t* count = malloc(columns * sizeof(int64_t));
  if (mean == NULL || count == NULL) { free(mean); free(count); return 1; }
  for (int64_t row = 0; row < rows; ++row, x += columns, y += columns) {
    int64_t blocks = 0;
    for (int64_t i = 0; i < columns; ++i) {
      mean[blocks] = x[i];
      count[blocks++] = 1;
      while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) {
        const int64_t both = count[blocks - 2] + count[blocks - 1];
        mean[blocks - 2] += (mean[blocks - 1] - mean[blocks - 2]) * count[blocks - 1] / both;
        count[blocks - 2] = both;
        --blocks;
      }
    }
    for (int64_t block = 0, i = 0; block < blocks; ++block)
      for (int64_t k = 0; k < count[block]; ++k) y[i++] = mean[block];
  }
  free(mean);
  free(count);
  return 0;
}
