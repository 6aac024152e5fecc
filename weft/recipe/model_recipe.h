// ModelRecipe: the section [model] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// The section [model].
struct ModelRecipe {
  std::string name;                    ///< "gpt", "llama", "cnn", "mlp", "resnet", "exported"
  std::string path;                    ///< exported: file of torch.export.save() (exported/exported_model.h)
  std::string blocks = "auto";         ///< exported: "auto" | comma-separated patterns of module paths (exported/cut.h)
  std::string inputs = "images";       ///< exported: "images" | "tokens" | "arrays"
  std::string loss = "cross_entropy";  ///< exported: ExportedModelOptions::loss
  int64_t layers = 6;                  ///< gpt, llama: transformer layers; mlp: hidden layers
  int64_t heads = 6;                   ///< gpt, llama: attention heads; must divide the width
  int64_t kv_heads = 0;                ///< llama: key and value heads; must divide heads; 0: as many as heads
  int64_t width = 384;                 ///< gpt, llama: embedding width; cnn: channels of the first stage; mlp: hidden width
  int64_t depth = 20;                  ///< resnet: layers with weights (models/resnet.h)
  std::string norm = "batch";          ///< resnet: "batch" | "group"
  bool zero_init_residual = false;     ///< resnet: ResnetOptions::zero_init_residual
  int64_t channels = 1;                ///< cnn, mlp, resnet, exported: image channels, 1 or 3
  int64_t image_size = 28;             ///< cnn, mlp, resnet, exported: height and width of the images
  int64_t ffn = 0;                     ///< llama: feed-forward width; 0: llama_ffn(width)
  int64_t context = 256;               ///< gpt, llama, exported: tokens per sample
  int64_t vocabulary = 256;            ///< gpt, llama, exported: different tokens
  int64_t classes = 10;                ///< cnn, mlp, resnet, exported: labels
  std::string class_weights;           ///< of the cross entropy, with commas; empty: all are 1
  double label_smoothing = 0.0;        ///< cnn, mlp, resnet, exported: share of the target spread evenly over all classes
  bool tied_embeddings = false;        ///< gpt, llama: logits are products with the token embeddings
  double dropout = 0.0;                ///< gpt: share of activations dropped
  double rope_theta = 10000.0;         ///< llama: base of the rotary angles
  double norm_eps = 1e-5;              ///< llama: added to the mean squares
  std::string weights;                 ///< initial weights (checkpoint/weights/weights_file.h); empty: random, or those in path
  std::string weight_names;            ///< JSON file that maps names in the weights to the model's; empty: same names
  std::string weights_skip;            ///< comma-separated name patterns that keep their random values (WeightsOptions)

  bool operator==(const ModelRecipe&) const = default;  ///< compares every member
};

}  // namespace weft
