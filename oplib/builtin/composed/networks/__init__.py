"""Functions of ``torch.nn.functional`` that are made of several ops."""

from . import attention, images, losses, multi_head, norms, pools, upsampling

SUBJECTS = (attention, images, losses, multi_head, norms, pools, upsampling)
