"""Which ops take complex numbers, and which are differentiated then: torch's answers, written by
``python -m tests.parity.complex_answers``.
"""

from __future__ import annotations

# ruff: noqa: SIM905  a name in quotes on each line would be a page

ACCEPT_COMPLEX = frozenset(
    """
    _index_put _to_copy abs acos acosh add.Scalar add.Tensor add.scaled addbmm addcdiv addcdiv.unscaled
    addcmul addcmul.unscaled addmm addmv addr alias all angle any as_strided as_strided_scatter asin asinh
    atan atanh baddbmm bilinear block_diag bmm broadcast_to cat channel_shuffle chunk clone col2im
    column_stack conj conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_transpose1d
    conv_transpose2d conv_transpose3d copy corrcoef cos cosh count_nonzero cumprod cumsum cumulative_trapezoid
    detach diag diag_embed diagflat diagonal diagonal_scatter diff dist div.Scalar div.Tensor dot dstack
    einsum embedding.padded eq.Scalar eq.Tensor exp exp2 expand expm1 fft_fft fft_fft2 fft_fftn fft_fftshift
    fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_irfft fft_irfft2 fft_irfftn
    fill.Scalar fill.Tensor flatten flip fliplr flipud gather hstack im2col index index_add index_copy
    index_fill index_select inner isclose isfinite isinf isnan isreal kron l1_loss ldexp lerp.Scalar
    lerp.Tensor linalg_cholesky linalg_cholesky_ex linalg_cross linalg_det linalg_eig linalg_eigh
    linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor
    linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve
    linalg_matrix_exp linalg_matrix_norm linalg_matrix_norm.str_ord linalg_matrix_power linalg_multi_dot
    linalg_pinv linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd
    linalg_svdvals linalg_vander linalg_vector_norm linear log log10 log1p log2 logaddexp logcumsumexp logdet
    logical_and logical_not logical_or logical_xor logsumexp lu_unpack masked_fill.Scalar masked_fill.Tensor
    masked_scatter matmul mean mm movedim mul.Scalar mul.Tensor mv nan_to_num narrow ne.Scalar ne.Tensor neg
    nonzero_static normalize ones_like outer pad pairwise_distance permute pixel_shuffle pixel_unshuffle
    pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor pow.Tensor_int prod prod.dim_int put ravel rdiv.Scalar real
    reciprocal renorm repeat repeat_interleave reshape rms_norm roll rot90 rsqrt rsub.Scalar scatter.src
    scatter.value scatter_add select select_scatter setitem sgn sigmoid silu sin sinc sinh slice_scatter
    slopes.Scalar slopes.Tensor soft_margin_loss softsign split split.sizes sqrt square squeeze stack std
    std_mean stored sub.Scalar sub.Tensor sub.scaled sum sum_to_size t take take_along_dim tan tanh tanhshrink
    tensordot tile trace transpose trapezoid tril triplet_margin_loss triu unbind unflatten unfold unsqueeze
    var var_mean vdot view view.dtype vstack where.ScalarOther where.ScalarSelf where.self zero zeros_like
    """.split()
)
DIFFERENTIATE_COMPLEX = frozenset(
    """
    _index_put _to_copy abs acos acosh add.Scalar add.Tensor add.scaled addbmm addcdiv addcdiv.unscaled
    addcmul addcmul.unscaled addmm addmv addr alias angle as_strided as_strided_scatter asin asinh atan atanh
    baddbmm block_diag bmm broadcast_to cat channel_shuffle chunk clone col2im column_stack conj conv1d
    conv1d.padding conv2d conv2d.padding conv3d conv3d.padding conv_transpose1d conv_transpose2d
    conv_transpose3d copy corrcoef cos cosh cov cumprod cumsum cumulative_trapezoid diag diag_embed diagflat
    diagonal diagonal_scatter diff dist div.Scalar div.Tensor dot dstack einsum exp exp2 expand expm1 fft_fft
    fft_fft2 fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift
    fft_irfft fft_irfft2 fft_irfftn fill.Scalar fill.Tensor flatten flip fliplr flipud gather hstack im2col
    index index_add index_copy index_fill index_select inner kron l1_loss ldexp lerp.Scalar lerp.Tensor
    linalg_cholesky linalg_cholesky_ex linalg_cross linalg_det linalg_eig linalg_eigh linalg_eigvals
    linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_lu_factor
    linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_matrix_norm linalg_matrix_norm.str_ord
    linalg_matrix_power linalg_multi_dot linalg_pinv linalg_qr linalg_slogdet linalg_solve linalg_solve_ex
    linalg_solve_triangular linalg_svd linalg_svdvals linalg_vander linalg_vector_norm linear log log10 log1p
    log2 logaddexp logcumsumexp logdet logsumexp lp_pool2d lu_unpack masked_fill.Scalar masked_fill.Tensor
    masked_scatter matmul mean mm movedim mul.Scalar mul.Tensor mv narrow neg normalize outer pad
    pairwise_distance permute pixel_shuffle pixel_unshuffle poisson_nll_loss pow.Scalar pow.Tensor_Scalar
    pow.Tensor_Tensor pow.Tensor_int prod prod.dim_int put ravel rdiv.Scalar real reciprocal renorm repeat
    repeat_interleave reshape rms_norm roll rot90 rsqrt rsub.Scalar scatter.src scatter.value scatter_add
    select setitem sgn sigmoid sin sinc sinh slopes.Scalar slopes.Tensor softsign split split.sizes sqrt
    square squeeze stack std std_mean stored sub.Scalar sub.Tensor sub.scaled sum sum_to_size t take
    take_along_dim tan tanh tanhshrink tensordot tile trace transpose trapezoid tril triplet_margin_loss triu
    unbind unflatten unfold unsqueeze var var_mean vdot view vstack where.ScalarOther where.ScalarSelf
    where.self zero
    """.split()
)
