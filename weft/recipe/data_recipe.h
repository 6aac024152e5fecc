// DataRecipe: the section [data] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// One of the sets that data.name = "mix" is made of, [[data.mix]]: keys of [data] that are its own.
struct MixPart {
  std::string name;                 ///< as DataRecipe::name, but "mix"
  std::string path;                 ///< DataRecipe::path
  std::string evaluation_path;      ///< DataRecipe::evaluation_path
  std::string tokenizer = "bytes";  ///< DataRecipe::tokenizer
  std::string column;               ///< DataRecipe::column
  double weight = 1.0;              ///< its share of the samples that are trained on, beside the others'
  /// DataRecipe::document_end
  std::optional<int64_t> document_end = {};

  bool operator==(const MixPart&) const = default;  ///< all of it
};

/// The section [data].
struct DataRecipe {
  std::string name;  ///< "fashion-mnist" | "images" | "cifar10" | "cifar100" | "image-folder" | "webdataset" | "parquet" |
                     ///< "text" | "tokens" | "jsonl" | "mix"
  std::string path;  ///< file or folder; empty: where set-up puts the default corpus
  std::string evaluation_path;      ///< webdataset, parquet, jsonl: the files for evaluation; data.path has those for training
  std::string tokenizer = "bytes";  ///< text; "uint16" or "uint32" token files for "tokens"
  std::string column;               ///< jsonl, parquet: what of a row is its document or image; empty: "text", "image"
  std::string label_column = "label";  ///< parquet: what of a row is its label
  double shuffle_mb = 128;             ///< jsonl, parquet: GroupOrderOptions::window_bytes
  double evaluation = 0.1;             ///< text, tokens, jsonl, parquet: share at the end of the stream kept for evaluation
  int64_t workers = 1;                 ///< threads that prepare a rank's micro-batches; 0: none, each when it is asked for
  bool skip_bad = false;               ///< images, rows: damaged ones are passed over and named, not refused
  int64_t crop_padding = 0;            ///< images: Augmentation::crop_padding
  bool flip = false;                   ///< images: Augmentation::flip
  double least_area = 0.0;             ///< images: Augmentation::least_area
  std::string alpha = "drop";          ///< image files: "drop" | "black", ImageDecoding::transparency
  bool exif_rotation = false;          ///< image files: ImageDecoding::upright
  double mixup = 0.0;                  ///< images: MixupOptions::alpha; 0: none
  std::vector<MixPart> mix = {};       ///< mix: what it is made of
  /// text, tokens, jsonl, parquet: "stream", windows are cut across documents; "documents": windows hold whole ones side by
  /// side
  std::string pack = "stream";
  /// tokens, with pack = "documents": the id that ends a document
  std::optional<int64_t> document_end = {};

  bool operator==(const DataRecipe&) const = default;  ///< all of it
};

}  // namespace weft
