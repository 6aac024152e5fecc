// Images in folders, one folder a class: JPEG and PNG files, as torchvision's ImageFolder takes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/data/bad_data.h"
#include "weft/data/images/image_source.h"

namespace weft {

/// The images in FOLDER/CLASS/..., at any depth below a class: files that end in kImageEndings, links followed, and
/// hidden files and folders (is_hidden_name()) passed over. What else is there is told by passed_over(). Labels
/// are the places of the classes' folders in the order of their names; the images of a class are in the order of their paths.
/// Throws InputError for a folder that is not there, has no class or no
/// image, and for a class without images; with BadData::skip such a class keeps its label.
std::shared_ptr<ImageSource> open_image_folder(const std::string& folder, const ImageDecoding& decoding,
                                               BadData bad = BadData::refuse);

/// The names of the classes in it, which are its folders that are not hidden, in the order of their labels. Throws InputError
/// for a folder that is not there.
std::vector<std::string> image_classes(const std::string& folder);

}  // namespace weft
