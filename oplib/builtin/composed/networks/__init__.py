"""Functions of ``torch.nn.functional`` that are made of several ops."""

from . import attention, fractional_pools, images, losses, multi_head, norm_pools, norms, pools, upsampling

SUBJECTS = (attention, fractional_pools, images, losses, multi_head, norm_pools, norms, pools, upsampling)
