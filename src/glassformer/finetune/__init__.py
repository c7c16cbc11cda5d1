"""Fine-tuning: adapters by substitution of a module, their files, and what of a model is trained.

gf.finetune.add_adapters(run.model, rank=8, alpha=16, targets=["q_proj", "v_proj"])
gf.finetune.fold(run.model)
"""

from glassformer.finetune.adapters import add_adapters as add_adapters
from glassformer.finetune.adapters import fold as fold
from glassformer.finetune.peft_files import load_adapter as load_adapter
from glassformer.finetune.peft_files import save_adapter as save_adapter
