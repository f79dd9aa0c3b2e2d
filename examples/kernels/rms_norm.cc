// Root-mean-square normalisation of rows, on the CPU, as XLA calls it.

#include <cmath>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;
using Array = ffi::Buffer<ffi::F32>;
using Result = ffi::ResultBuffer<ffi::F32>;

// x: rows of `weight.element_count()` numbers each. y: x over the root of its mean square, times weight.
// scale: for each row, what it was multiplied by.
static ffi::Error RmsNorm(float eps, Array x, Array weight, Result y, Result scale) {
  const int64_t columns = weight.element_count();
  const int64_t rows = scale->element_count();
  if (rows * columns != static_cast<int64_t>(x.element_count())) {
    return ffi::Error::InvalidArgument("rms_norm: the last axis of x must be as long as weight");
  }
  const float* in = x.typed_data();
  const float* w = weight.typed_data();
  float* out = y->typed_data();
  for (int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += in[i] * in[i];
    const float factor = 1 / std::sqrt(sum / columns + eps);
    scale->typed_data()[row] = factor;
    for (int64_t i = 0; i < columns; ++i) out[i] = in[i] * factor * w[i];
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(rms_norm, RmsNorm,
                              ffi::Ffi::Bind()
                                  .Attr<float>("eps")
                                  .Arg<Array>()
                                  .Arg<Array>()
                                  .Ret<Array>()
                                  .Ret<Array>());
