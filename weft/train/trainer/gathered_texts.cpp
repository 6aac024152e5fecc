#include "weft/train/trainer/gathered_texts.h"

#include <fmt/format.h>

#include "weft/comm/store/store.h"
#include "weft/comm/wait/await.h"

namespace weft {

std::vector<std::string> gathered_texts(const World& world, const std::string& what, const std::string& own,
                                        std::chrono::milliseconds timeout) {
  if (world.size() == 1) return {own};
  Store store = world.next_group_store();
  store.set(fmt::format("{}/{}", what, world.rank()), own);
  if (world.rank() != 0) return {};
  std::vector<std::string> texts;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string key = fmt::format("{}/{}", what, rank);
    texts.push_back(await_key(store, key, timeout, wait_for_rank(rank, fmt::format("gathering results about {}", what))));
  }
  return texts;
}

}  // namespace weft
