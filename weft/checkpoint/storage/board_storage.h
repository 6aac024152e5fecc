// The data of the ranks' copies of their state (base/run_board.h) as files of a Storage: "data-00003.bin" is rank 3's.
#pragma once

#include <memory>
#include <string>

#include "weft/base/run_board.h"
#include "weft/checkpoint/storage/storage.h"

namespace weft {

/// The copies of that number. Only data can be written and read; the board must outlive the storage.
std::unique_ptr<Storage> board_storage(RunBoard& board, int number);

/// The file that has a rank's data, here and in checkpoints.
std::string data_file(int rank);

}  // namespace weft
