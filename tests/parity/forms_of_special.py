"""Forms of special functions."""

_HALF = "(x.abs() / 9 + 0.2)"
_ONE = ("entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "psi", "gammaln", "expit", "sinc", "expm1")
_BESSEL = (
    *(f"{name}{order}" for name in ("bessel_j", "bessel_y", "modified_bessel_k") for order in (0, 1)),
    *(f"scaled_modified_bessel_k{order}" for order in (0, 1)),
)

SPECIAL = (
    *(f"lib.special.{name}({_HALF})" for name in (*_ONE, "ndtri", "erfinv", "logit")),
    *(f"lib.special.{name}(i)" for name in ("ndtr", "entr", "erfcx", "i1")),
    "lib.special.ndtri(lib.tensor([0.0, 1.0, -0.5, 1e-30, 0.999999]))",
    "lib.special.log_ndtr(lib.tensor([-300.0, -1e9, 12.0, float('inf'), -float('inf'), float('nan')]))",
    "lib.special.erfcx(lib.tensor([-20.0, -5.0, 50.0, float('inf'), -float('inf'), float('nan')]))",
    "lib.special.entr(lib.tensor([0.0, -1.0, float('inf'), float('nan')]))",
    "lib.special.spherical_bessel_j0(x.detach() * 20)",
    "lib.special.modified_bessel_i1(x.detach())",
    *(f"lib.special.{name}(x.detach() * 2)" for name in (*_BESSEL, "airy_ai")),
    *(f"lib.special.{name}(i)" for name in (*_BESSEL, "airy_ai")),
    *(
        f"lib.special.{name}(lib.tensor([0.0, -0.0, 3e-5, float('inf'), -float('inf'), float('nan')]))"
        for name in _BESSEL
    ),
    "lib.special.bessel_j0(input=x.detach(), out=lib.empty(0))",
    "lib.special.airy_ai(x.detach().half())",
    "lib.special.ndtr(x.detach(), out=lib.empty(0))",
    "lib.special.xlog1py(x, v[:3].abs())",
    "lib.special.xlog1py(x, 1.5)",
    "lib.special.xlog1py(2, v.abs())",
    "lib.special.xlog1py(lib.tensor([0.0, 0.0, 1.0]), lib.tensor([-1.0, float('nan'), -1.0]))",
    "lib.special.zeta(2.5, v.abs() + 1)",
    "lib.special.zeta(v.detach().abs() + 1.1, 2)",
    "lib.special.zeta(lib.tensor([1.0, 0.5, 2.0]), lib.tensor([2.0, 2.0, -1.5]))",
    "lib.special.gammainc(v.detach().abs(), v.abs() + 0.1)",
    "lib.igammac(x.detach().abs(), x.abs() + 0.1)",
    "(x.detach().abs() * 1).igamma_(x.abs().detach())",
    "lib.special.polygamma(2, x.abs() + 0.5)",
    "(x.abs() + 0.5).polygamma(1)",
    "lib.polygamma(n=0, input=x.abs() + 0.5)",
    "lib.polygamma(1, i)",
    "(x.abs() + 0.5).polygamma_(1)",
    "lib.special.multigammaln(x.abs() + 2, 3)",
    "(x.abs() + 2).mvlgamma(p=2)",
    "lib.special.softmax(x, 1)",
    "lib.special.logsumexp(x, -1, True)",
    "lib.special.round(x.detach(), decimals=1)",
    "lib.special.xlogy(x, 2.0)",
)
