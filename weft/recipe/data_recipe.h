// DataRecipe: the section [data] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// One of the sets mixed by data.name = "mix", a [[data.mix]] section: the keys of [data] that each part sets for itself.
struct MixPart {
  std::string name;                 ///< as DataRecipe::name, except "mix"
  std::string path;                 ///< DataRecipe::path
  std::string evaluation_path;      ///< DataRecipe::evaluation_path
  std::string tokenizer = "bytes";  ///< DataRecipe::tokenizer
  std::string column;               ///< DataRecipe::column
  double weight = 1.0;              ///< its share of the training samples, relative to the other parts
  /// DataRecipe::document_end
  std::optional<int64_t> document_end = {};

  bool operator==(const MixPart&) const = default;  ///< compares every member
};

/// The section [data].
struct DataRecipe {
  std::string name;  ///< "fashion-mnist" | "images" | "cifar10" | "cifar100" | "image-folder" | "webdataset" | "parquet" |
                     ///< "text" | "tokens" | "jsonl" | "arrays" | "mix"
  std::string path;  ///< file or folder; empty: the default corpus, in its set-up folder
  std::string
      evaluation_path;  ///< webdataset, parquet, jsonl, arrays: the evaluation files; data.path holds the training files
  std::string tokenizer = "bytes";     ///< text; "uint16" or "uint32" token files for "tokens"
  std::string column;                  ///< jsonl, parquet: column with the document or image; empty: "text", "image"
  std::string label_column = "label";  ///< parquet: column with the label
  double shuffle_mb = 128;             ///< jsonl, parquet: GroupOrderOptions::window_bytes
  double evaluation = 0.1;             ///< text, tokens, jsonl, parquet, arrays: share at the end kept for evaluation
  int64_t workers = 1;                 ///< threads that prepare a rank's micro-batches; 0: prepared on demand
  bool skip_bad = false;               ///< images, rows: skip and report damaged ones instead of failing
  int64_t crop_padding = 0;            ///< images: Augmentation::crop_padding
  bool flip = false;                   ///< images: Augmentation::flip
  double least_area = 0.0;             ///< images: Augmentation::least_area
  std::string alpha = "drop";          ///< image files: "drop" | "black", ImageDecoding::transparency
  bool exif_rotation = false;          ///< image files: ImageDecoding::upright
  double mixup = 0.0;                  ///< images: MixupOptions::alpha; 0: off
  std::vector<MixPart> mix = {};       ///< mix: its parts
  /// text, tokens, jsonl, parquet: "stream": windows are cut across documents; "documents": windows hold whole documents side
  /// by side
  std::string pack = "stream";
  /// tokens, with pack = "documents": the id that ends a document
  std::optional<int64_t> document_end = {};

  bool operator==(const DataRecipe&) const = default;  ///< compares every member
};

}  // namespace weft
