#include <utility>

#include "weft/models/resnet.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/data_names.h"
#include "weft/recipe/read/section_keys.h"

namespace weft {

std::vector<FileKey> model_keys(ModelRecipe& m) {
  return {
      {"model", "name", &m.name, "which model", {}, model_names(), true},
      {"model", "path", &m.path, "exported: file that torch.export.save() wrote (docs/exported.md)"},
      {"model", "blocks", &m.blocks,
       "exported: where it is cut: auto, or module paths, \"h.*\"; several with commas; '*' matches any text"},
      {"model", "inputs", &m.inputs, "exported: what it reads", {}, {"images", "tokens", "arrays"}},
      {"model", "loss", &m.loss,
       "exported: cross_entropy, mean_squares of arrays, or the file of another program (docs/exported.md)"},
      {"model", "layers", &m.layers, "gpt, llama: transformer layers; mlp: hidden layers", from(1, 10'000)},
      {"model", "heads", &m.heads, "gpt, llama: attention heads; must divide the width", from(1, kMostHeads)},
      {"model", "kv_heads", &m.kv_heads, "llama: key and value heads; must divide heads; 0: as many", from(0, kMostHeads)},
      {"model", "width", &m.width, "gpt, llama: embedding; cnn: channels of the first stage; mlp: hidden layers", from(1, 1e6)},
      {"model", "ffn", &m.ffn, "llama: feed-forward width; 0: 8/3 width, rounded up to a multiple of 256", from(0, 1e7)},
      {"model", "context", &m.context, "gpt, llama, exported: tokens per sample", from(1, 1e7)},
      {"model", "vocabulary", &m.vocabulary, "gpt, llama, exported: different tokens", from(2)},
      {"model", "depth", &m.depth, "resnet: layers; 8, 20, 32, 44, 56, 110 for small images, 18, 34, 50, 101, 152 for large",
       from(8, 152)},
      {"model", "norm", &m.norm, "resnet: normalisation of its channels", {}, kResnetNorms.all()},
      {"model", "zero_init_residual", &m.zero_init_residual, "resnet: each residual block starts as the identity"},
      {"model", "channels", &m.channels, "cnn, mlp, resnet, exported: image channels; 1 or 3", from(1, 3)},
      {"model", "image_size", &m.image_size, "cnn, mlp, resnet, exported: height and width of the images", from(4, 4096)},
      {"model", "classes", &m.classes, "cnn, mlp, resnet, exported: labels", from(2, 1e6)},
      {"model", "class_weights", &m.class_weights,
       "cnn, mlp, resnet, exported: a weight per class in the cross entropy, \"1, 0.5, 2\"; left out: 1"},
      {"model", "label_smoothing", &m.label_smoothing,
       "cnn, mlp, resnet, exported: share of the target spread over all classes", zero_to_below_one()},
      {"model", "tied_embeddings", &m.tied_embeddings, "gpt, llama: logits are products with the token embeddings"},
      {"model", "dropout", &m.dropout, "gpt: share of activations dropped", zero_to_below_one()},
      {"model", "rope_theta", &m.rope_theta, "llama: base of the rotary angles", above(0)},
      {"model", "norm_eps", &m.norm_eps, "llama: added to the mean squares", zero_to_below_one()},
      {"model", "weights", &m.weights,
       "initial weights: .safetensors, a folder of them, .pt, .pt2, or a checkpoint; left out: random, or those in model.path"},
      {"model", "weight_names", &m.weight_names,
       "JSON file {\"name in weights\": \"name in the model\"}; '*' matches any text"},
      {"model", "weights_skip", &m.weights_skip,
       "names that keep their random values, \"fc.*\"; several with commas; '*' matches any text"},
  };
}

std::vector<FileKey> data_keys(DataRecipe& d) {
  return {
      {"data", "name", &d.name, "kind of data", {}, data_names(), true},
      {"data", "path", &d.path, "file or folder; left out: the default data from set-up"},
      {"data", "evaluation_path", &d.evaluation_path,
       "webdataset, parquet, jsonl, arrays: files for evaluation; left out: folders train and val of data.path, or its end"},
      {"data",
       "tokenizer",
       &d.tokenizer,
       "text: bytes; tokens: width of an id, unless the file says it",
       {},
       {"bytes", "uint16", "uint32"}},
      {"data", "column", &d.column, "jsonl, parquet: column with the text, token ids or image; left out: text, or image"},
      {"data", "label_column", &d.label_column, "parquet: column with the label of the image"},
      {"data", "shuffle_mb", &d.shuffle_mb, "jsonl, parquet: MiB of row groups shuffled together; a rank holds twice that",
       above(0, 1e6)},
      {"data",
       "pack",
       &d.pack,
       "text, tokens, jsonl, parquet: windows are cut across documents, or hold whole ones side by side that do not see "
       "each "
       "other",
       {},
       {"stream", "documents"}},
      {"data", "document_end", &d.document_end,
       "tokens, with pack = \"documents\": the id that ends a document; not needed for files with Megatron's .idx", from(0)},
      {"data", "workers", &d.workers, "threads that prepare a rank's micro-batches ahead; 0: on demand", from(0, 1024)},
      {"data", "skip_bad", &d.skip_bad, "images, jsonl, parquet: skip, count and report damaged ones; false: an error"},
      {"data", "crop_padding", &d.crop_padding, "images: largest random shift in training, in pixels", from(0, 4096)},
      {"data", "flip", &d.flip, "images: mirrored with probability 1/2 in training"},
      {"data", "least_area", &d.least_area, "images: random crop in training, of at least this share of the area; 0: none",
       from(0, 1)},
      {"data",
       "alpha",
       &d.alpha,
       "image files: transparent pixels keep their colour (as in Pillow and torchvision), or are drawn on black",
       {},
       {"drop", "black"}},
      {"data", "exif_rotation", &d.exif_rotation,
       "image files: rotated and mirrored by their EXIF orientation; false: as stored, as in torchvision"},
      {"data", "mixup", &d.mixup, "images: each is mixed with another in training, weight from Beta(mixup, mixup); 0: off",
       from(0, 4)},
      {"data",
       "evaluation",
       &d.evaluation,
       "text, tokens, jsonl, parquet, arrays: share at the end kept for evaluation",
       {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true}},
  };
}

std::vector<FileKey> mix_keys(MixPart& p, const std::string& section) {
  std::vector<std::string> names = data_names();
  std::erase(names, kMixName);
  const bool is_read = section == "data.mix";  // false for an existing part
  return {
      {section, "name", &p.name, "mix: kind of data of a part", {}, names, is_read},
      {section, "path", &p.path, "as data.path, for the part"},
      {section, "evaluation_path", &p.evaluation_path, "as data.evaluation_path, for the part"},
      {section, "tokenizer", &p.tokenizer, "as data.tokenizer, for the part", {}, {"bytes", "uint16", "uint32"}},
      {section, "column", &p.column, "as data.column, for the part"},
      {section, "document_end", &p.document_end, "as data.document_end, for the part", from(0)},
      {section,
       "weight",
       &p.weight,
       "the part's share of the training samples, relative to the others",
       {.min = 0.0, .max = 1e6, .open_min = true}},
  };
}

}  // namespace weft
