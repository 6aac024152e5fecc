// ImageSource: labelled images by index, decoded on request.
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
  virtual int64_t size() const = 0;                ///< number of images
  virtual int64_t label(int64_t index) const = 0;  ///< label of an image, not negative
  /// Returns the part of an image that `choose` selects. Throws InputError, naming the file and the image in it; BadDataError
  /// if its bytes are not an image.
  virtual DecodedCrop decode(int64_t index, ChooseCrop choose) const = 0;
  /// Name of an image, for users: "cifar/data_batch_1.bin, image 17".
  virtual std::string name(int64_t index) const = 0;
  /// See Dataset::left_out().
  virtual DataNotes left_out() const { return {}; }
  /// See Dataset::passed_over().
  virtual DataNotes passed_over() const { return {}; }
  /// See TokenSource::grouped(); the items are images.
  virtual const GroupReader* grouped() const { return nullptr; }
};

}  // namespace weft
