// Recipe: the TOML file that names model, data, batch, layout, optimizer and run: what `weft train` takes. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/train/recipe/save_recipe.h"

namespace weft {

/// The section [model].
struct ModelRecipe {
  std::string name;                 ///< "gpt", "llama", "cnn", "mlp", "resnet"
  int64_t layers = 6;               ///< gpt, llama: transformer layers; mlp: hidden layers
  int64_t heads = 6;                ///< gpt, llama: attention heads; must divide the width
  int64_t kv_heads = 0;             ///< llama: key and value heads; must divide heads; 0: as many as heads
  int64_t width = 384;              ///< gpt, llama: embedding width; cnn: channels of the first stage; mlp: hidden width
  int64_t depth = 20;               ///< resnet: layers with weights (models/resnet.h)
  std::string norm = "batch";       ///< resnet: "batch" | "group"
  bool zero_init_residual = false;  ///< resnet: ResnetOptions::zero_init_residual
  int64_t channels = 1;             ///< cnn, mlp, resnet: of the images, 1 or 3
  int64_t image_size = 28;          ///< cnn, mlp, resnet: height and width of the images
  int64_t ffn = 0;                  ///< llama: feed-forward width; 0: llama_ffn(width)
  int64_t context = 256;            ///< gpt, llama: tokens a sample
  int64_t vocabulary = 256;         ///< gpt, llama: different tokens
  int64_t classes = 10;             ///< cnn, mlp, resnet: labels
  bool tied_embeddings = false;     ///< gpt, llama: logits are products with the token embeddings
  double dropout = 0.0;             ///< gpt: share of activations dropped
  double rope_theta = 10000.0;      ///< llama: base of the rotary angles
  double norm_eps = 1e-5;           ///< llama: added to the mean squares
  std::string weights;              ///< that it starts from (checkpoint/weights/weights_file.h); empty: drawn ones
  std::string weight_names;         ///< a JSON file of the names that those have instead of the model's; empty: the same
};

/// The section [data].
struct DataRecipe {
  std::string name;  ///< "fashion-mnist" | "images" | "cifar10" | "cifar100" | "image-folder" | "text" | "tokens"
  std::string path;  ///< file or folder; empty: where set-up puts the default corpus
  std::string tokenizer = "bytes";  ///< text; "uint16" or "uint32" token files for "tokens"
  double evaluation = 0.1;          ///< text, tokens: share at the end of the stream kept for evaluation
  int64_t workers = 1;              ///< threads that prepare a rank's micro-batches; 0: none, each when it is asked for
  int64_t crop_padding = 0;         ///< images: Augmentation::crop_padding
  bool flip = false;                ///< images: Augmentation::flip
  double least_area = 0.0;          ///< images: Augmentation::least_area
};

/// The section [batch].
struct BatchRecipe {
  int64_t global = 0;  ///< samples a step, over all ranks
  /// Samples a forward; default: global / data-parallel ranks, or / slots; with a pipeline, a part of that.
  std::optional<int64_t> micro;
  int64_t reference = 0;  ///< the global batch that optimizer.lr was found for; 0: none is told
};

/// The section [layout].
struct LayoutRecipe {
  std::optional<int64_t> dp;               ///< default: the ranks that remain
  std::optional<int64_t> shard;            ///< default: the ranks that remain where shard_level is not "none", else 1
  int64_t pp = 1;                          ///< pipeline ranks
  int64_t cp = 1;                          ///< context-parallel ranks
  int64_t tp = 1;                          ///< tensor-parallel ranks
  bool sequence_parallel = false;          ///< with tp
  int64_t tp_chunks = 1;                   ///< with tp
  std::string context_attention = "auto";  ///< with cp: a word of nn/attention_method.h
  std::string schedule = "1f1b";           ///< pp: in which order stages run: a name of program/build/make_schedule.h
  int64_t chunks = 2;                      ///< interleaved: stages a rank
  std::string stages = "auto";             ///< pp: blocks of each stage: "auto" (balanced), "even", or as many numbers: "3,2,3"
  double stage_gb = 0.0;                   ///< stages = "auto": most GiB that a rank may hold, as estimated; 0: no limit
  int64_t schedule_activations = 0;        ///< auto schedule: most forwards that a rank holds at a time; 0: as 1F1B
  std::string schedule_file;               ///< csv schedule
  std::string profile;                 ///< a file of `weft profile`: measured times for stages = "auto" and the auto schedule
  std::string shard_level = "none";    ///< "none" | "optimizer" | "gradients" | "parameters": ZeRO 0 to 3
  bool reshard_after_forward = true;   ///< parameters: release whole weights after forward, gather them again for backward
  int64_t inner_shards = 0;            ///< after forward, over so many neighbours only; 0: all
  int64_t prefetch = 1;                ///< parameters: blocks gathered ahead; gradients, parameters: reductions under way
  double gathered_mb = 0.0;            ///< most whole weights at a time; 0: no limit
  std::string recompute = "none";      ///< "none" | "blocks" | "attention"
  int64_t recompute_every = 1;         ///< blocks: every k-th
  std::string precision = "fp32";      ///< "fp32" | "bf16" | "fp16"
  std::string reduction = "computed";  ///< gradients are kept and reduced "computed" (as the precision says) or in "fp32"
  std::string offload_optimizer = "none";    ///< optimizer state: "none" | "host" | "disk"
  std::string offload_parameters = "none";   ///< the rank's shard of the weights: "none" | "host" | "disk"
  std::string offload_activations = "none";  ///< inputs of blocks that are computed again: "none" | "host" | "disk"
  std::string offload_folder;                ///< of what is offloaded to disk; empty: $TMPDIR, or /var/tmp
  std::string backend = "auto";              ///< "auto" | "shm" | "gloo" | "nccl"
  double bucket_mb = 25.0;                   ///< shard_level "none": gradients are reduced in ranges of about so many MiB
};

/// The section [optimizer].
struct OptimizerRecipe {
  std::string name = "adamw";        ///< of optimizer_names()
  double lr = 3e-4;                  ///< learning rate at its peak, of batch.reference where that is set
  std::string scale_lr = "none";     ///< how it is taken to batch.global: "none" | "linear" | "sqrt"
  int64_t warmup = 0;                ///< steps of linear warm-up
  std::string warmup_from = "zero";  ///< "zero" | "reference": lr, where it is scaled
  std::string decay = "constant";    ///< "constant" | "linear" | "cosine" | "step"
  double final_lr = 0.0;             ///< linear, cosine: share of lr at the last step
  int64_t decay_every = 0;           ///< step decay: steps between drops
  double decay_factor = 0.1;         ///< step decay: factor of each drop
  double weight_decay = 0.01;        ///< adamw, lion: decoupled; lamb: part of what moves weights; others: added to gradients
  std::optional<double> beta1;       ///< adamw, lamb, lion
  std::optional<double> beta2;       ///< the same
  std::optional<double> alpha;       ///< rmsprop
  std::optional<double> eps;         ///< all but sgd, lion
  std::optional<double> momentum;    ///< sgd, lars, rmsprop
  bool nesterov = false;             ///< sgd, lars
  std::optional<double> trust;       ///< lars: Lars::trust
  double trust_limit = 0.0;          ///< lars, lamb: largest ratio; 0: no limit
  double clip = 0.0;                 ///< global gradient norm; 0: no clipping
};

/// The section [run].
struct RunRecipe {
  int64_t steps = 0;               ///< to train
  int64_t evaluate_every = 0;      ///< 0: only at the end
  uint64_t seed = 1;               ///< of weights, dropout and the order of samples
  std::optional<int64_t> threads;  ///< per rank; default cores / local ranks, or 1 with reproducible_slots or _tp
  int64_t reproducible_slots = 0;  ///< 0: off; a power of two that the data-parallel ranks divide
  int64_t reproducible_tp = 0;     ///< 0: off; a power of two that layout.tp divides
  std::string device = "auto";     ///< "auto" | "cpu" | "cuda"
  double timeout_s = 300.0;        ///< deadline of a collective
  int64_t restarts = 0;            ///< how often the launcher starts a run again that failed
  std::string name;                ///< in checkpoints; empty: the recipe's file name
  std::string resume = "auto";     ///< "auto": from save.folder's newest checkpoint, if any; "none"; or a checkpoint's path
};

/// A whole run.
struct Recipe {
  std::string path;           ///< of the file, for errors
  ModelRecipe model;          ///< what is trained
  DataRecipe data;            ///< what on
  BatchRecipe batch;          ///< how many samples at a time
  LayoutRecipe layout;        ///< how it is divided over ranks and memory
  OptimizerRecipe optimizer;  ///< how weights are updated
  RunRecipe run;              ///< how long
  SaveRecipe save;            ///< where checkpoints go, and how often
};

}  // namespace weft
