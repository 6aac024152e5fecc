// Damaged data files of each format, read as in training. For half of the files the format's checksums are recomputed, so that
// damage gets past them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/seeds.h"

namespace weft::fuzz {

/// Records of an archive by name.
using Members = std::vector<std::pair<std::string, std::string>>;

void jpeg(const std::string& folder, test::Random& random);
void png(const std::string& folder, test::Random& random);
void tar(const std::string& folder, test::Random& random);
void parquet(const std::string& folder, test::Random& random);
void json_lines(const std::string& folder, test::Random& random);
void token_files(const std::string& folder, test::Random& random);
void arrays(const std::string& folder, test::Random& random);
void cifar(const std::string& folder, test::Random& random);
void torch_file(const std::string& folder, test::Random& random);

/// Files of text, ids and images, in this order; any content if weft is built without Parquet.
std::vector<std::string> parquet_files();

/// Records of an archive of PyTorch's, except those that its writer adds.
Members records_of(const std::string& path);

void write(const std::string& path, const std::string& bytes);
std::string read(const std::string& path);

}  // namespace weft::fuzz
