// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/mpi.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace skein::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLooksPerClock = 64;
constexpr unsigned kLooksWithoutWait = 8;  // about a microsecond: what takes longer is waiting
// Testing is what drives MPI forward, so waiting is busy; once this has passed, a look each kNap is enough.
constexpr auto kBusy = std::chrono::milliseconds(10);
constexpr int kNapUs = 20;
constexpr const char* kPluginFile = "libskein_mpi.so";

// The plugin named by SKEIN_MPI_PLUGIN, else the one beside the program, else one that the loader knows.
std::string PluginPath() {
  if (const char* named = std::getenv("SKEIN_MPI_PLUGIN"); named != nullptr) return named;
  char program[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (length > 0) {
    const std::string path(program, static_cast<std::size_t>(length));
    const std::string beside = path.substr(0, path.rfind('/') + 1) + kPluginFile;
    if (access(beside.c_str(), R_OK) == 0) return beside;
  }
  return kPluginFile;
}

void* OpenPlugin() {
  // MPI's own plugins look for its symbols.
  return dlopen(PluginPath().c_str(), RTLD_NOW | RTLD_GLOBAL);
}

// What tells hosts apart: the machine and its network, since ranks in two network namespaces of a machine reach each other by network only.
std::string HostName() {
  char name[64] = {};
  gethostname(name, sizeof name - 1);
  struct stat network = {};
  if (stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  return fmt::format("{}/{}", name, network.st_ino);
}

std::vector<int> Numbered(const std::vector<char>& names, int ranks) {
  std::vector<std::string> seen;
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) {
    const char* first = names.data() + kHostNameBytes * static_cast<std::size_t>(rank);
    const std::string name(first, strnlen(first, kHostNameBytes));
    const auto place = std::find(seen.begin(), seen.end(), name);
    hosts.push_back(static_cast<int>(place - seen.begin()));
    if (place == seen.end()) seen.push_back(name);
  }
  return hosts;
}

}  // namespace

bool MpiJob::Launched() {
  // Open MPI's mpirun; srun and others through PMI and PMIx.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

bool MpiJob::Available() {
  void* library = OpenPlugin();
  if (library == nullptr) return false;
  const bool found = dlsym(library, kMpiPluginSymbol) != nullptr;
  dlclose(library);
  return found;
}

Result<MpiJob> MpiJob::Join() {
  void* library = OpenPlugin();
  if (library == nullptr) {
    return MissingError(fmt::format("--transport mpi needs an MPI and its plugin, {}; install openmpi-bin and build with libopenmpi-dev", dlerror()));
  }
  const auto function = reinterpret_cast<MpiPluginFunction>(dlsym(library, kMpiPluginSymbol));
  const MpiPlugin* plugin = function == nullptr ? nullptr : function();
  if (plugin == nullptr || plugin->version != kMpiPluginVersion) {
    return MissingError(fmt::format("{} of version {} is needed, found {}; build it anew with the program", kPluginFile, kMpiPluginVersion,
                                    plugin == nullptr ? "none" : std::to_string(plugin->version)));
  }
  char error[256] = {};
  if (plugin->start(error, sizeof error) != 0) return Status(Code::kUnavailable, fmt::format("the MPI job cannot be joined: {}", error));
  char mine[kHostNameBytes] = {};
  HostName().copy(mine, sizeof mine - 1);
  std::vector<char> all(kHostNameBytes * static_cast<std::size_t>(plugin->size()));
  if (plugin->hosts(mine, all.data()) != 0) return Status(Code::kUnavailable, "the ranks of the MPI job do not reach each other");
  return MpiJob(plugin, Numbered(all, plugin->size()));
}

Status MpiJob::AllReduce(const float* x, float* out, std::size_t count) {
  return plugin_->all_reduce(x, out, count) == 0 ? OkStatus() : Status(Code::kUnavailable, "MPI_Allreduce failed");
}

std::unique_ptr<Transport> MpiTransport::Create(const MpiJob& job, const Group& group, int tag, TransportOptions options,
                                                std::size_t slot_bytes) {
  if (options.ranks.empty()) {
    for (const Rank rank : group.ranks) options.ranks.push_back(rank.value);
  }
  return std::unique_ptr<Transport>(new MpiTransport(job, group, tag, std::move(options), slot_bytes));
}

MpiTransport::MpiTransport(const MpiJob& job, const Group& group, int tag, TransportOptions options, std::size_t slot_bytes)
    : Transport("mpi", group.self, group.size(), slot_bytes, std::move(options)), plugin_(*job.plugin_), tag_(tag) {
  for (const Rank rank : group.ranks) {
    Peer& peer = peers_.emplace_back();
    peer.rank = rank.value;
    if (rank == group.ranks[static_cast<std::size_t>(group.self)]) continue;
    for (auto& buffer : peer.received) buffer.resize(slot_bytes + kSlack);
  }
  for (auto& slot : slots_) slot.resize(slot_bytes + kSlack + 64);
  sending_.reserve(peers_.size() * 2 * kSlots);
}

bool MpiTransport::WaitFor(int request, int peer, std::size_t& bytes) {
  Clock::time_point begin;
  for (unsigned looks = 0;; ++looks) {
    const int done = plugin_.test(request, &bytes);
    if (done > 0) {
      if (looks > kLooksWithoutWait) CountWaited(Clock::now() - begin);
      return true;
    }
    if (done < 0) {
      FailAt(peer, "cannot be reached, or sent more than was expected");
      return false;
    }
    if (looks == 0) begin = Clock::now();
    if (looks % kLooksPerClock != 0 && options().spin && !beside()) continue;
    const Clock::duration waited = Clock::now() - begin;
    if (waited > options().timeout) {
      FailAt(peer, fmt::format("did not answer within {} ms; it has ended, hangs or is much slower",
                               std::chrono::duration_cast<std::chrono::milliseconds>(options().timeout).count()));
      return false;
    }
    if (!options().spin) sched_yield();
    if (waited > kBusy || beside()) usleep(kNapUs);
  }
}

bool MpiTransport::WaitUntilSent(const std::byte* slot) {
  std::size_t bytes = 0;
  for (const Sending& one : sending_) {
    if (one.slot == slot && !WaitFor(one.request, one.peer, bytes)) return false;
  }
  std::erase_if(sending_, [&](const Sending& one) { return one.slot == slot; });
  return true;
}

std::byte* MpiTransport::Open() {
  slot_ = (slot_ + 1) % kSlots;
  // Aligned to a cache line.
  auto address = reinterpret_cast<std::uintptr_t>(slots_[slot_].data());
  auto* slot = reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
  return !failed() && WaitUntilSent(slot) ? slot : nullptr;
}

bool MpiTransport::Post(int peer, const std::byte* slot, std::size_t begin, std::size_t end) {
  if (failed()) return false;
  const bool empty = begin == end;
  // Empty messages wait for nothing else, so now and then for each other.
  if (empty && sending_.size() > peers_.size() * kSlots && !WaitUntilSent(nullptr)) return false;
  const std::byte* from = empty ? slots_[0].data() : slot + begin;
  const int request = plugin_.send(from, end - begin, peers_[static_cast<std::size_t>(peer)].rank, tag_);
  if (request < 0) {
    FailAt(peer, "cannot be reached");
    return false;
  }
  sending_.push_back({request, peer, empty ? nullptr : slot});
  CountPosted(end - begin);
  return true;
}

const std::byte* MpiTransport::Await(int peer, std::size_t bytes) {
  if (failed()) return nullptr;
  Peer& state = peers_[static_cast<std::size_t>(peer)];
  std::vector<std::byte>& buffer = state.received[state.awaited % kSlots];
  const int request = plugin_.receive(buffer.data(), buffer.size(), state.rank, tag_);
  std::size_t found = 0;
  if (request < 0) {
    FailAt(peer, "cannot be reached");
    return nullptr;
  }
  if (!WaitFor(request, peer, found)) return nullptr;
  if (found != bytes) {
    FailAt(peer, fmt::format("sent {} bytes where {} were expected; ranks must run the same program with the same options", found, bytes));
    return nullptr;
  }
  ++state.awaited;
  return buffer.data();
}

void MpiTransport::Drain() {
  while (!failed() && !sending_.empty()) static_cast<void>(WaitUntilSent(sending_.front().slot));
}

}  // namespace skein::comm
