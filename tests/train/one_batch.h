// OneBatch: a data set of one batch's samples.
#pragma once

#include <utility>
#include <vector>

#include "tests/train/reference.h"
#include "weft/data/dataset.h"

namespace weft {

/// The samples of a batch.
class OneBatch final : public Dataset {
 public:
  explicit OneBatch(Batch batch) : batch_(std::move(batch)) {}
  int64_t size() const override { return batch_.target.size(0); }
  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    return slice(batch_, indices.front(), static_cast<int64_t>(indices.size()));
  }

 private:
  Batch batch_;
};

}  // namespace weft
