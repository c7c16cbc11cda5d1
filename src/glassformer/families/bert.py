"""BERT (Devlin et al. 2019), RoBERTa and its descendants, DistilBERT."""

import re
from dataclasses import replace

from glassformer.families.family import TAGS, Computed, Family, Head

POST_NORM = {
    "architecture": "encoder",
    "position": "learned",
    "norm_placement": "post",
    "embedding_norm": True,
    "init": "bert",
}
CLASSES = {"head": "classify", "pool": "first", "pooler": True}
POOLER = "head.dense  .pooler.dense"
VECTORS = Head(
    "feature-extraction",
    "text",
    {"head": "pool", "pool": "first", "pooler": True},
    POOLER,
    without={"pooler.dense.weight": {"pooler": False}},
)
UNUSED = r"pooler\..*"

BERT = Family(
    model_type="bert",
    prefix="bert",
    fixed=POST_NORM,
    fields="""
    vocab_size         vocab_size
    max_length         max_position_embeddings
    d_model            hidden_size
    n_layers           num_hidden_layers
    n_heads            num_attention_heads
    d_ff               intermediate_size
    n_token_types      type_vocab_size
    activation         hidden_act
    epsilon            layer_norm_eps
    dropout            hidden_dropout_prob
    attention_dropout  attention_probs_dropout_prob
    tied               tie_word_embeddings
    """,
    aliases={"BertForPreTraining": "BertForMaskedLM"},
    defaults={"hidden_act": "gelu", "layer_norm_eps": 1e-12, "tie_word_embeddings": True},
    at_least={"n_token_types": 1},
    only={
        "is_decoder": (False,),
        "add_cross_attention": (False,),
        "position_embedding_type": ("absolute", None),
    },
    tensors="""
    embed.element                           embeddings.word_embeddings
    embed.position                          embeddings.position_embeddings
    embed.kind                              embeddings.token_type_embeddings
    embed.norm                              embeddings.LayerNorm
    encoder.blocks.#.attention.q_proj       encoder.layer.#.attention.self.query
    encoder.blocks.#.attention.k_proj       encoder.layer.#.attention.self.key
    encoder.blocks.#.attention.v_proj       encoder.layer.#.attention.self.value
    encoder.blocks.#.attention.out_proj     encoder.layer.#.attention.output.dense
    encoder.blocks.#.attention_norm         encoder.layer.#.attention.output.LayerNorm
    encoder.blocks.#.feedforward.up_proj    encoder.layer.#.intermediate.dense
    encoder.blocks.#.feedforward.down_proj  encoder.layer.#.output.dense
    encoder.blocks.#.feedforward_norm       encoder.layer.#.output.LayerNorm
    """,
    heads={
        "BertModel": VECTORS,
        "BertForMaskedLM": Head(
            "fill-mask",
            "documents",
            {"head": "masked_lm"},
            """
            head.dense           cls.predictions.transform.dense
            head.norm            cls.predictions.transform.LayerNorm
            head.unembed.weight  cls.predictions.decoder.weight     whole
            head.unembed.bias    cls.predictions.decoder.bias       whole tied=false
            head.unembed.bias    cls.predictions.bias               whole
            """,
            same={"head_activation": "activation"},
            unused=r"cls\.seq_relationship\..*|pooler\..*",
        ),
        "BertForSequenceClassification": Head(
            "text-classification", "text", CLASSES, f"{POOLER}\nhead.proj  classifier"
        ),
        "BertForTokenClassification": replace(TAGS, unused=UNUSED),
    },
    tied={
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
        "cls.predictions.bias": "cls.predictions.decoder.bias",
    },
    unused=r"embeddings\.position_ids",
)


# Positions of RoBERTa begin after the number of the padding symbol, 1: two rows are never read.
LENGTH = Computed(
    lambda keys: {"max_length": keys["max_position_embeddings"] - 2},
    lambda model: {"max_position_embeddings": model.max_length + 2},
)
ROBERTA = replace(
    BERT,
    model_type="roberta",
    prefix="roberta",
    fields=re.sub("max_length .*", "", BERT.fields),
    computed=(LENGTH,),
    only={**BERT.only, "pad_token_id": (1,)},
    defaults={**BERT.defaults, "pad_token_id": 1},
    tensors=BERT.tensors.replace("position_embeddings", "position_embeddings  from:2"),
    heads={
        "RobertaModel": VECTORS,
        "RobertaForMaskedLM": Head(
            "fill-mask",
            "documents",
            {"head": "masked_lm", "head_activation": "gelu"},
            """
            head.dense           lm_head.dense
            head.norm            lm_head.layer_norm
            head.unembed.weight  lm_head.decoder.weight  whole
            head.unembed.bias    lm_head.decoder.bias    whole tied=false
            head.unembed.bias    lm_head.bias            whole
            """,
            unused=UNUSED,
        ),
        "RobertaForSequenceClassification": Head(
            "text-classification",
            "text",
            CLASSES,
            """
            head.dense  classifier.dense
            head.proj   classifier.out_proj
            """,
            unused=UNUSED,
        ),
        "RobertaForTokenClassification": BERT.heads["BertForTokenClassification"],
    },
    tied={
        "lm_head.decoder.weight": "embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
        "lm_head.bias": "lm_head.decoder.bias",
    },
)
XLM_ROBERTA, CAMEMBERT = (
    replace(
        ROBERTA,
        model_type=kind,
        heads={name.replace("Roberta", own): head for name, head in ROBERTA.heads.items()},
    )
    for kind, own in (("xlm-roberta", "XLMRoberta"), ("camembert", "Camembert"))
)
DISTILBERT = Family(
    model_type="distilbert",
    prefix="distilbert",
    fixed={**POST_NORM, "epsilon": 1e-12},
    fields="""
    vocab_size         vocab_size
    max_length         max_position_embeddings
    d_model            dim
    n_layers           n_layers
    n_heads            n_heads
    d_ff               hidden_dim
    activation         activation
    dropout            dropout
    attention_dropout  attention_dropout
    tied               tie_word_embeddings
    """,
    defaults={"activation": "gelu", "tie_word_embeddings": True},
    tensors="""
    embed.element                           embeddings.word_embeddings
    embed.position                          embeddings.position_embeddings
    embed.norm                              embeddings.LayerNorm
    encoder.blocks.#.attention.q_proj       transformer.layer.#.attention.q_lin
    encoder.blocks.#.attention.k_proj       transformer.layer.#.attention.k_lin
    encoder.blocks.#.attention.v_proj       transformer.layer.#.attention.v_lin
    encoder.blocks.#.attention.out_proj     transformer.layer.#.attention.out_lin
    encoder.blocks.#.attention_norm         transformer.layer.#.sa_layer_norm
    encoder.blocks.#.feedforward.up_proj    transformer.layer.#.ffn.lin1
    encoder.blocks.#.feedforward.down_proj  transformer.layer.#.ffn.lin2
    encoder.blocks.#.feedforward_norm       transformer.layer.#.output_layer_norm
    """,
    heads={
        "DistilBertModel": Head("feature-extraction", "text", {"head": "none", "pool": "first"}),
        "DistilBertForMaskedLM": Head(
            "fill-mask",
            "documents",
            {"head": "masked_lm"},
            """
            head.dense           vocab_transform
            head.norm            vocab_layer_norm
            head.unembed.weight  vocab_projector.weight  whole
            head.unembed.bias    vocab_projector.bias    whole
            """,
            same={"head_activation": "activation"},
        ),
        "DistilBertForSequenceClassification": Head(
            "text-classification",
            "text",
            {**CLASSES, "head_activation": "relu"},
            """
            head.dense  pre_classifier
            head.proj   classifier
            """,
        ),
        "DistilBertForTokenClassification": TAGS,
    },
    tied={"vocab_projector.weight": "embeddings.word_embeddings.weight"},
)
