"""One step of learning, to see that every parameter takes part."""

import torch

import tiny
from glassformer.core.batch import Batch, Part, Positions
from glassformer.models import ModelConfig, Transformer


def learn(config: ModelConfig) -> dict[str, torch.Tensor]:
    """One forward and backward pass in training; the gradient of every parameter, by name."""
    torch.manual_seed(0)
    model = tiny.stir(Transformer(config)).train()
    length = min(6, config.max_length)
    if config.elements == "patches":
        batch = Batch(torch.randn(3, length, config.patch_width))
    else:
        ids = torch.randint(0, config.vocab_size, (3, length))
        kinds = ids % config.n_token_types if config.n_token_types else None
        source = Batch(ids.flip(1), Positions.pad([length, 2, 1]), token_type_ids=kinds)
        parts = tuple(
            Part(name, torch.tensor([1, 8]) + 2 * i, torch.randn(2, width), torch.tensor([0, 1]))
            for i, (name, width) in enumerate(config.parts.items())
        )
        source = source if config.architecture == "encoder_decoder" else None
        batch = Batch(ids, token_type_ids=kinds, source=source, parts=parts)
    logits = model(batch).logits
    (logits * torch.randn_like(logits)).sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert all(gradient is not None for gradient in gradients.values()), [
        n for n, g in gradients.items() if g is None
    ]
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    return gradients
