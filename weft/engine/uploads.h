// Uploads: micro-batches copied from pinned host memory to a device, beside its work.
//
// Each is copied into memory of the copying stream, which the work of the micro-batch before it does not use: the copy waits
// for the one before that alone. Memory: one micro-batch more than are in use. What the work only converts as it begins, such
// as float32 inputs of a bf16 model, is not kept: the next copy waits for that, and takes its memory.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <vector>

#include "weft/nn/block.h"

namespace weft {

/// The stream of a rank's copies, and the micro-batches whose memory it uses again.
class Uploads {
 public:
  explicit Uploads(c10::Device device);
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

 private:
  friend class Upload;
  struct Used {
    Tensors tensors;
    c10::Event by;  ///< the current stream's work with them
  };
  void free(std::vector<Used>& used);

  c10::Stream stream_;
  std::vector<Used> earlier_, latest_;  ///< over before the latest micro-batch was copied; since then
  std::vector<Used> converted_;         ///< of that one
};

/// One micro-batch. Its tensors may be used by later work of the current stream from wait() on until this is destroyed.
class Upload {
 public:
  /// Frees the micro-batches that were over when the one before was copied.
  explicit Upload(std::shared_ptr<Uploads> uploads);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  /// Begins to copy a tensor of it to the device.
  at::Tensor copy(const at::Tensor& pinned);
  /// The current stream waits for the copies.
  void wait();
  /// Later work of the current stream uses these tensors alone.
  void keep(const Tensors& used);

 private:
  std::shared_ptr<Uploads> uploads_;
  Tensors tensors_;
};

}  // namespace weft
