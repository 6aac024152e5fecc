#include "weft/train/save/behind_steps.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "weft/comm/threads/parallel_for.h"

namespace weft {

void run_behind_steps() {
  constexpr int kNice = 5;
  pthread_setname_np(pthread_self(), "weft-save");
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);  // for this thread only, on Linux
  use_single_thread();
}

}  // namespace weft
