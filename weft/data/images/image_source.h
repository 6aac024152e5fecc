// ImageSource: labelled images by index, decoded when they are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/data/data_note.h"
#include "weft/data/images/picture.h"

namespace weft {

class GroupReader;

/// Labelled images. Thread-safe.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual int64_t size() const = 0;                ///< images
  virtual int64_t label(int64_t index) const = 0;  ///< of an image, not negative
  /// The part of an image that `choose` chooses. Throws InputError that names the file, and which image of it;
  /// BadDataError where its bytes are not an image.
  virtual DecodedCrop decode(int64_t index, ChooseCrop choose) const = 0;
  /// Which image it is, for people: "cifar/data_batch_1.bin, image 17".
  virtual std::string name(int64_t index) const = 0;
  /// As Dataset::left_out().
  virtual DataNotes left_out() const { return {}; }
  /// As Dataset::passed_over().
  virtual DataNotes passed_over() const { return {}; }
  /// As TokenSource::grouped(): the items are images.
  virtual const GroupReader* grouped() const { return nullptr; }
};

}  // namespace weft
