#include <climits>
#include <utility>

#include "weft/base/file_descriptor.h"
#include "weft/base/loopback.h"
#include "weft/launch/hosts.h"
#include "weft/launch/launch_options.h"
#include "weft/launch/local_ranks.h"
#include "weft/launch/run_status.h"

namespace weft {

namespace {

class ThisHost : public Hosts {
 public:
  StartedRanks start(const LaunchOptions& options, const sigset_t& mask) override {
    if (options.status != nullptr) options.status->set_local_ranks(options.num_ranks);
    auto ranks = std::make_unique<LocalRanks>(local_ranks_options(options, mask), options.num_ranks);
    FileDescriptor socket = options.serve ? listen_on_loopback() : FileDescriptor();
    ranks->start({.first_rank = 0,
                  .num_ranks = options.num_ranks,
                  .world = options.num_ranks,
                  .master_address = "127.0.0.1",
                  .master_port = free_loopback_port(),
                  .store = socket ? "127.0.0.1:" + std::to_string(port_of(socket)) : ""});
    StartedRanks started;
    started.hosts.push_back(std::move(ranks));
    // After the last fork, because it starts threads.
    if (socket) started.server = options.serve(std::move(socket));
    return started;
  }
  void add_descriptors(std::vector<pollfd>&) const override {}
  void receive() override {}
  std::vector<HostSignal> signals() override { return {}; }
  int capacity() const override { return INT_MAX; }
  int least_capacity() const override { return 1; }
  int gather(SignalWatch&, const std::function<std::optional<bool>(int)>&) override { return 0; }
};

}  // namespace

std::unique_ptr<Hosts> this_host_alone() { return std::make_unique<ThisHost>(); }

}  // namespace weft
