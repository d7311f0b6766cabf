"""Complaints of transformers about checkpoints, provoked; run by the Python of the packs.

`python tests/interop/oracle_explain_transformers.py` prints them, shortened:
tests/data/explain/transformers.json.
"""

import json
import logging
import os

from oracle_packs import with_torchvision
from provoking import Provocations

with_torchvision()

from transformers import AutoModel, BertConfig, BertForSequenceClassification, BertModel  # noqa: E402

provoked = Provocations(logging.getLogger("transformers"))
names, text = provoked.names, provoked.text


def _save(kind=BertModel, **configured):
    sizes = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    kind(BertConfig(intermediate_size=8, max_position_embeddings=16, **sizes)).save_pretrained("bert")
    if configured:
        with open("bert/config.json", encoding="utf-8") as file:
            config = json.load(file)
        with open("bert/config.json", "w", encoding="utf-8") as file:
            json.dump(config | configured, file)


@provoked
def head_that_is_new():
    _save()
    BertForSequenceClassification.from_pretrained("./bert")


@provoked
def head_of_other_size():
    _save(BertForSequenceClassification)
    BertForSequenceClassification.from_pretrained("./bert", num_labels=7)


@provoked
def folder_without_weights():
    _save()
    os.remove("bert/model.safetensors")
    AutoModel.from_pretrained("./bert")


@provoked
def quantization_unknown():
    _save(quantization_config={"quant_method": "of_next_year"})
    AutoModel.from_pretrained("./bert")


@provoked
def quantization_without_method():
    _save(quantization_config={"bits": 4})
    AutoModel.from_pretrained("./bert")


@provoked
def quantization_without_package():
    _save(quantization_config={"quant_method": "gptq", "bits": 4})
    AutoModel.from_pretrained("./bert")


if __name__ == "__main__":
    provoked.main()
