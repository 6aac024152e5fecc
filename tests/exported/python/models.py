"""Trains models of torchvision, timm and transformers, tiny and with random weights, alone in PyTorch and in weft's layouts.

By hand, as tests/support/compare_in_python.sh runs scripts: tests/exported/models.sh [NAME...]. Prints a row of docs/exported.md for each
model: how far weft's losses are from PyTorch's, whether all layouts give the same bits, and how far tensor parallelism is from them and bf16 from float32.
"""
import os
import pathlib
import sys
import tempfile

import torch
import torchvision
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import nets  # noqa: E402
import runs  # noqa: E402
import weft_data  # noqa: E402

STEPS, SIZE = 10, 32
TOKENS = {"vocab_size": nets.VOCABULARY}


class OfGrey(nn.Module):
    """Takes one channel, gives three."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x.expand(-1, 3, -1, -1))


class Logits(nn.Module):
    """The logits of a model of transformers; one with a decoder gets the same ids there. Causal ones get their mask, which they
    would make with torch.vmap: torch.export cannot save that."""

    def __init__(self, model, causal=False):
        super().__init__()
        self.model, self.causal = model, causal

    def forward(self, ids):
        options = {"decoder_input_ids": ids} if self.model.config.is_encoder_decoder else {}
        if self.causal:
            options["attention_mask"] = torch.ones(1, 1, nets.CONTEXT, nets.CONTEXT, dtype=torch.bool, device=ids.device).tril()
        return self.model(input_ids=ids, **options).logits


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.head = nn.Embedding(nets.VOCABULARY, 32), nn.GRU(32, 48, 2, batch_first=True), nn.Linear(48, nets.VOCABULARY)

    def forward(self, ids):
        return self.head(self.rnn(self.embedding(ids))[0])


def resnet18():
    """Without the first pooling, so that BatchNorm has several values of a sample at the end: with one, PyTorch with and
    without oneDNN (torch.backends.mkldnn) differs by 4e-6 in 4 steps, without the pooling by 2e-7."""
    model = torchvision.models.resnet18(num_classes=nets.CLASSES)
    model.maxpool = nn.Identity()
    return model


def efficientnet():
    block = torchvision.models.efficientnet.MBConvConfig
    return torchvision.models.EfficientNet([block(1, 3, 1, 32, 16, 1, 0.5, 1.0), block(6, 3, 2, 16, 24, 2, 0.5, 1.0)], dropout=0.0,
                                           stochastic_depth_prob=0.0, num_classes=nets.CLASSES, last_channel=64)


def convnext():
    import timm
    return timm.create_model("convnext_atto", num_classes=nets.CLASSES, depths=(1, 1, 2, 1), dims=(8, 16, 32, 64))


def vit():
    import timm
    return timm.create_model("vit_tiny_patch16_224", img_size=SIZE, patch_size=8, embed_dim=48, depth=3, num_heads=3, num_classes=nets.CLASSES)


def swin():
    return torchvision.models.SwinTransformer([2, 2], 24, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=nets.CLASSES)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return Logits(GPT2LMHeadModel(GPT2Config(n_positions=nets.CONTEXT, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                                             attn_pdrop=0.0, use_cache=False, **TOKENS)), causal=True)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return Logits(LlamaForCausalLM(LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                               num_key_value_heads=2, max_position_embeddings=nets.CONTEXT, use_cache=False, **TOKENS)), causal=True)


def bert():
    from transformers import BertConfig, BertForMaskedLM
    return Logits(BertForMaskedLM(BertConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                             max_position_embeddings=nets.CONTEXT, hidden_dropout_prob=0.0,
                                             attention_probs_dropout_prob=0.0, **TOKENS)))


class Classifier(nn.Module):
    """The logits of a model of transformers for padded texts."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def bert_classifier():
    from transformers import BertConfig, BertForSequenceClassification
    return Classifier(BertForSequenceClassification(BertConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=nets.CONTEXT,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=nets.CLASSES, **TOKENS)))


def distilbert():
    from transformers import DistilBertConfig, DistilBertForSequenceClassification
    return Classifier(DistilBertForSequenceClassification(DistilBertConfig(
        dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=nets.CONTEXT, dropout=0.0, attention_dropout=0.0,
        seq_classif_dropout=0.0, num_labels=nets.CLASSES, **TOKENS)))


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    return Logits(T5ForConditionalGeneration(T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0, use_cache=False,
                                                      **TOKENS)))


# By name: the package, what makes it, whether it reads tokens, or the arrays that it reads; its learning rate.
MODELS = {
    "ResNet-18": ("torchvision", lambda: OfGrey(resnet18()), False, 1e-6),
    "EfficientNet": ("torchvision", lambda: OfGrey(efficientnet()), False, 1e-4),
    "ConvNeXt": ("timm", lambda: OfGrey(convnext()), False, 1e-3),
    "ViT": ("timm", lambda: OfGrey(vit()), False, 1e-3),
    "Swin": ("torchvision", lambda: OfGrey(swin()), False, 1e-3),
    "U-Net": ("torch.nn", nets.UNet, False, 1e-2),
    "LSTM": ("torch.nn", nets.Lstm, True, 1e-2),
    "GRU": ("torch.nn", Gru, True, 1e-2),
    "GPT-2": ("transformers", gpt2, True, 1e-2),
    "Llama": ("transformers", llama, True, 1e-2),
    "BERT": ("transformers", bert, True, 1e-2),
    "BERT-classifier": ("transformers", bert_classifier, "texts", 1e-2),
    "DistilBERT": ("transformers", distilbert, "texts", 1e-2),
    "T5": ("transformers", t5, True, 1e-3),
}


# By name: layers that two ranks share, or three.
SPLITS = {
    "ViT": (3, {"columns": "*.qkv:3, *.fc1", "rows": "*.proj, *.fc2"}),
    "Swin": (2, {"columns": "*.mlp.0", "rows": "*.mlp.3"}),
    "LSTM": (2, {"vocabulary": "embedding, head"}),
    "GRU": (2, {"vocabulary": "embedding, head"}),
    "GPT-2": (2, {"columns": "*.c_attn:3, *.c_fc", "rows": "*.attn.c_proj, *.mlp.c_proj", "vocabulary": "*.wte"}),
    "Llama": (2, {"columns": "*.q_proj, *.k_proj, *.v_proj, *.gate_proj, *.up_proj", "rows": "*.o_proj, *.down_proj",
                  "vocabulary": "*.embed_tokens, *.lm_head"}),
    "BERT": (2, {"columns": "*.query, *.key, *.value, *.intermediate.dense", "rows": "*.attention.output.dense, *.layer.?.output.dense"}),
    "BERT-classifier": (2, {"columns": "*.query, *.key, *.value, *.intermediate.dense",
                            "rows": "*.attention.output.dense, *.layer.?.output.dense"}),
    "DistilBERT": (2, {"columns": "*.q_lin, *.k_lin, *.v_lin, *.lin1", "rows": "*.out_lin, *.lin2"}),
    "T5": (2, {"columns": "*Attention.q, *Attention.k, *Attention.v, *.wi", "rows": "*Attention.o, *.wo", "vocabulary": "*.embed_tokens, *lm_head"}),
}


def split_difference(name, file, one):
    """How far losses of ranks that share layers are from those of one rank."""
    if name not in SPLITS:
        return "-"
    ranks, layers = SPLITS[name]
    runs.SPLIT_LAYOUTS["tp"] = (ranks, [f"layout.tp={ranks}", *(f"model.tp_{key}={patterns}" for key, patterns in layers.items())])
    return f"{runs.difference(runs.train(file, 'tp')[0], one):.1e}"


def texts(folder):
    """Padded texts of several lengths, and their classes."""
    generator = torch.Generator().manual_seed(4)
    ids = torch.randint(nets.VOCABULARY, (200, nets.CONTEXT), generator=generator)
    lengths = torch.randint(3, nets.CONTEXT + 1, (200, 1), generator=generator)
    mask = (torch.arange(nets.CONTEXT) < lengths).long()
    return weft_data.Arrays(folder, {"input_ids": ids * mask, "attention_mask": mask}, torch.randint(nets.CLASSES, (200,), generator=generator))


def row_of(name, folder, sets):
    package, make, tokens, rate = MODELS[name]
    torch.manual_seed(1)
    model = make()
    path, batches = folder / f"{name}.pt2", [sets[tokens].batch(step, runs.GLOBAL, runs.SEED) for step in range(STEPS)]
    inputs = batches[0][0]
    example = {key: values[:4] for key, values in inputs.items()} if isinstance(inputs, dict) else inputs[:4]
    runs.export_function()(model, example, str(path))
    file = runs.recipe(folder, name, path, tokens, STEPS, rate, SIZE)
    expected = runs.alone(model, batches, rate)
    one = runs.train(file, "one")[0]
    differ = [layout for layout in list(runs.LAYOUTS)[1:] if runs.train(file, layout)[0] != one]
    parameters = sum(p.numel() for p in model.parameters())
    is_small = parameters < 1e6  # CPUs without bf16 convolutions take minutes for others
    narrow = runs.difference(runs.train(file, "one", "layout.precision=bf16", "run.steps=2")[0], one[:2]) if is_small else None
    return f"| {name} | {package} | {parameters:,} | {expected[0]:.6f} to {expected[-1]:.6f} | {runs.difference(one, expected):.1e} | " \
           f"{'all' if not differ else 'not ' + ', '.join(differ)} | {split_difference(name, file, one)} | {'not run' if narrow is None else f'{narrow:.1e}'} |"


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        sets = {False: weft_data.Images(folder / "images", 200, SIZE, nets.CLASSES),
                True: weft_data.Tokens(folder / "ids", 8000, nets.CONTEXT, nets.VOCABULARY), "texts": texts(folder / "texts")}
        for name in os.environ.get("MODELS", "").split() or MODELS:
            try:
                print(row_of(name, folder, sets), flush=True)
            except Exception as error:  # the other rows are still of use
                print(f"{name}: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
