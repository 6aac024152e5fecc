// Images in folders, one folder per class: JPEG and PNG files, as in torchvision's ImageFolder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/data/bad_data.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// Images in FOLDER/CLASS/..., at any depth below a class: files that end in kImageEndings, links followed, hidden files and
/// folders (is_hidden_name()) passed over. passed_over() lists everything else found there. Labels are the indices of the class
/// folders in name order; the images of a class are in path order. Throws InputError for a folder that does not exist or has no
/// class or no image, and for a class without images; with BadData::skip such a class keeps its label.
std::shared_ptr<ImageSource> open_image_folder(const std::string& folder, const ImageDecoding& decoding,
                                               BadData bad = BadData::refuse);

/// Names of the classes, the visible folders in `folder`, in label order. Throws InputError for a folder that does not exist.
std::vector<std::string> image_classes(const std::string& folder);

}  // namespace weft
