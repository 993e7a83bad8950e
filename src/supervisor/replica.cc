// SPDX-License-Identifier: Apache-2.0
#include "supervisor/replica.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "supervisor/endpoint.h"
#include "supervisor/rank_process.h"

namespace skein::supervisor {
namespace {

constexpr int kLookEveryMs = 100;
// Of this process's own thread: after a longer pause (a machine that stood still) nobody's silence means anything.
constexpr std::chrono::milliseconds kOwnPause{1000};
constexpr std::chrono::seconds kGuestPatience{5};
constexpr std::size_t kGuestsMax = 64;
constexpr std::size_t kSaidMax = 4096;
// mpirun cleans up by itself when its ranks are gone; at times it hangs instead, and is not waited for.
constexpr std::chrono::milliseconds kMpirunPatience{1000};
constexpr std::chrono::milliseconds kEndLookEvery{5};

// As comm/transports/mpi.h reads it.
constexpr const char* kPluginVariable = "SKEIN_MPI_PLUGIN";
constexpr const char* kSlurmNodes = "SLURM_JOB_NODELIST";
// A rank comes with up to three connections.
constexpr std::size_t kConnectionsOfRank = 3;

engine::FrameStreamOptions HelloFrames() { return {kControlMagic, kControlVersion, kHelloBytesMax}; }
engine::FrameStreamOptions ControlFrames() { return {kControlMagic, kControlVersion, kControlBytesMax}; }

struct Peer {
  bool may_come = false;
  pid_t pid = -1;  // where it is known
};

// Who is on this host must be of this user; of others nothing is known before they say the secret.
Peer PeerOf(int socket) {
  int family = 0;
  socklen_t size = sizeof family;
  if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) return {};
  if (family != AF_UNIX) {
    const int yes = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return {true, -1};
  }
  ucred peer{};
  size = sizeof peer;
  const bool ours = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
  return {ours, peer.pid};
}

Status NoSocket() {
  return MissingError(fmt::format("no socket can be had: {}; raise the limit of open files (ulimit -n)", std::strerror(errno)));
}

Status MakePair(Descriptor& near, Descriptor& far) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return NoSocket();
  near = Descriptor(ends[0]);
  far = Descriptor(ends[1]);
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Replica>> Replica::Start(const ReplicaOptions& options, std::uint64_t incarnation) {
  const int count = options.setup.ranks();
  if (count < 1 || count > comm::kRanksMax) return InvalidArgument(fmt::format("a mesh of {} ranks, expected 1 to {}", count, comm::kRanksMax), "tensor");
  std::unique_ptr<Replica> replica(new Replica(options));
  replica->incarnation_ = incarnation;
  replica->started_ = replica->looked_ = Clock::now();
  replica->ranks_.resize(static_cast<std::size_t>(count));
  if (options.setup.transport == "mpi") {
    SKEIN_RETURN_IF_ERROR(replica->StartMpirun());
  } else {
    SKEIN_RETURN_IF_ERROR(replica->StartChildren());
  }
  return replica;
}

Replica::~Replica() {
  for (Rank& rank : ranks_) {
    if (rank.child.pid() > 0) {
      rank.child.Signal(SIGKILL);
    } else if (rank.pid > 0 && rank.control != nullptr) {
      ::kill(rank.pid, SIGKILL);  // mpirun's child; its channel is open, so the number is still its own
    }
  }
  if (launcher_.pid() > 0) {
    launcher_.Signal(SIGTERM);
    launcher_.WaitForEnd(kMpirunPatience);
    launcher_.Kill();
  }
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}  // whatever is left of children is killed and reaped by Child

RankSetup Replica::SetupOf(int rank) const {
  RankSetup setup = options_.setup;
  setup.build = BuildId();
  setup.rank = rank;
  setup.incarnation = incarnation_;
  setup.now_ns = SteadyClock().NowNs();
  setup.arena_descriptors = arena_descriptors_;
  return setup;
}

Status Replica::StartChildren() {
  for (const ArenaShape& shape : options_.arenas) {
    SKEIN_ASSIGN_OR_RETURN(comm::Arena arena, comm::Arena::Shared(shape.members, shape.slot_bytes));
    arenas_.push_back(std::move(arena));
  }
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    Descriptor near, far, near_engine, far_engine;
    SKEIN_RETURN_IF_ERROR(MakePair(near, far));
    std::vector<int> inherited{far.get()};
    RankSetup setup = SetupOf(rank);
    const auto inherit = [&](int descriptor) {
      inherited.push_back(descriptor);
      return kControlDescriptor + static_cast<int>(inherited.size()) - 1;
    };
    if (rank == 0) {
      SKEIN_RETURN_IF_ERROR(MakePair(near_engine, far_engine));
      setup.engine_descriptor = inherit(far_engine.get());
      engine_ = std::move(near_engine);
    }
    setup.arena_descriptors.clear();
    for (const comm::Arena& arena : arenas_) setup.arena_descriptors.push_back(inherit(arena.descriptor()));
    Rank& one = ranks_[static_cast<std::size_t>(rank)];
    SKEIN_ASSIGN_OR_RETURN(one.child, StartChild(options_.program, inherited));
    one.pid = one.child.pid();
    one.heard = Clock::now();
    one.control = std::make_unique<engine::FrameStream>(std::move(near), ControlFrames());
    one.control->Put(EncodeControl(setup));
  }
  return OkStatus();
}

// Ranks of this host come to a socket that nobody else can see; others to an address.
Status Replica::Listen() {
  Result<Endpoint> endpoint = Status(Code::kUnavailable, "");
  if (options_.hosts.empty() && !options_.by_network) {
    endpoint = ListenOnThisHost();
  } else {
    std::string address = options_.control_address;
    if (address.empty()) {
      std::vector<std::string> names;
      for (const HostShare& host : options_.hosts) names.push_back(host.name);
      const char* nodes = std::getenv(kSlurmNodes);
      if (names.empty() && nodes != nullptr) names.push_back(LastOfNodeList(nodes));  // this process is on the first
      SKEIN_ASSIGN_OR_RETURN(address, AddressTowards(names));
    }
    endpoint = ListenAt(address);
  }
  if (!endpoint.ok()) return endpoint.status();
  listener_ = std::move(endpoint->listener);
  endpoint_ = endpoint->name;
  return OkStatus();
}

Status Replica::StartMpirun() {
  MpirunPlaces places{options_.hosts, options_.remote_program, {kSocketVariable, kSecretVariable}};
  if (std::getenv(kPluginVariable) != nullptr) places.variables.push_back(kPluginVariable);
  SKEIN_ASSIGN_OR_RETURN(const Program mpirun, MpirunFor(options_.program, static_cast<int>(ranks_.size()), places));
  SKEIN_ASSIGN_OR_RETURN(secret_, RandomName());
  SKEIN_RETURN_IF_ERROR(Listen());
  // What mpirun keeps in files goes with the replica, however mpirun ends.
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "skein-XXXXXX").string();
  if (error || ::mkdtemp(folder.data()) == nullptr) return MissingError("no temporary folder can be made for mpirun; see TMPDIR");
  folder_ = folder;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return NoSocket();
  output_ = Descriptor(ends[0]);
  const Descriptor written(ends[1]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  // On other hosts there is no such folder, and mpirun tells them everything of its own but this.
  const char* base = options_.hosts.empty() && !options_.by_network ? "OMPI_MCA_orte_tmpdir_base" : "TMPDIR";
  const std::vector<std::string> environment{fmt::format("{}={}", kSocketVariable, endpoint_), fmt::format("{}={}", kSecretVariable, secret_),
                                             fmt::format("{}={}", base, folder_)};
  SKEIN_ASSIGN_OR_RETURN(launcher_, StartChild(mpirun, {}, environment, written.get()));
  return OkStatus();
}

bool Replica::ready() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ready; });
}

std::vector<pid_t> Replica::pids() const {
  std::vector<pid_t> pids;
  for (const Rank& rank : ranks_) pids.push_back(rank.pid);
  return pids;
}

std::vector<engine::RankLoad> Replica::loads() const {
  std::vector<engine::RankLoad> loads;
  for (const Rank& rank : ranks_) loads.push_back(rank.load);
  return loads;
}

Status Replica::Lost(int rank, std::string_view how) {
  lost_ = rank;
  return Status(Code::kUnavailable, fmt::format("rank {} {}", rank, how));
}

Status Replica::Watch(const WakeEvent& wake) {
  std::vector<pollfd> watched{{wake.descriptor(), POLLIN, 0}};
  for (const Rank& rank : ranks_) {
    if (rank.control == nullptr) continue;
    watched.push_back({rank.control->descriptor(), static_cast<short>(POLLIN | (rank.control->unsent() > 0 ? POLLOUT : 0)), 0});
  }
  if (listener_.valid()) watched.push_back({listener_.get(), POLLIN, 0});
  if (output_.valid()) watched.push_back({output_.get(), POLLIN, 0});
  for (const Guest& guest : guests_) watched.push_back({guest.stream->descriptor(), POLLIN, 0});
  ::poll(watched.data(), watched.size(), kLookEveryMs);
  if (watched.front().revents != 0) wake.Clear();
  return Look();
}

Status Replica::Look() {
  const auto now = Clock::now();
  if (now - looked_ > kOwnPause) {
    for (Rank& rank : ranks_) rank.heard = now;
  }
  looked_ = now;
  if (output_.valid()) ReadOutput();
  if (listener_.valid()) Receive();
  if (listener_.valid() && guests_.empty() && ready()) listener_.Close();  // nobody is awaited any more
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) SKEIN_RETURN_IF_ERROR(TakeFrom(rank));
  Beat();
  return LookForLost();
}

Status Replica::TakeFrom(int number) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  if (rank.control == nullptr) return OkStatus();
  const Status read = rank.control->Read();
  while (true) {
    const Result<std::span<const std::byte>> frame = rank.control->Next();
    if (!frame.ok()) return frame.status().WithContext(fmt::format("rank {}", number));
    if (frame->empty()) break;
    const Result<ControlMessage> message = DecodeControl(*frame);
    if (!message.ok()) return message.status().WithContext(fmt::format("rank {}", number));
    rank.heard = Clock::now();
    SKEIN_RETURN_IF_ERROR(Take(number, *message));
  }
  if (read.ok()) return OkStatus();
  // Its end may be known already, and says more than a closed channel.
  if (rank.child.pid() > 0 && rank.child.WaitForEnd(std::chrono::milliseconds(kLookEveryMs))) return Lost(number, rank.child.how());
  if (launcher_.pid() > 0 && !rank.ready && said_.empty()) {  // a rank says on standard error what it cannot say here
    pollfd watched{output_.get(), POLLIN, 0};
    ::poll(&watched, 1, kLookEveryMs);
    ReadOutput();
  }
  return Lost(number, said_.empty() || rank.ready ? "closed its channel" : fmt::format("closed its channel; it said: {}", said_));
}

Status Replica::Take(int number, const ControlMessage& message) {
  Rank& rank = ranks_[static_cast<std::size_t>(number)];
  if (const auto* failed = std::get_if<FailedMessage>(&message)) {
    lost_ = number;
    return StatusOf(*failed);
  }
  if (const auto* progress = std::get_if<ProgressMessage>(&message)) {
    rank.done = progress->done;
    rank.total = progress->total;
    std::uint64_t done = 0, total = 0;
    for (const Rank& one : ranks_) {
      done += one.done;
      total += one.total;
    }
    if (options_.progress) options_.progress(std::min(done, total), total);
  } else if (const auto* ready = std::get_if<ReadyMessage>(&message)) {
    if (number == 0) {
      const engine::ExecutorLimits& limits = ready->facts.limits;
      if (limits.vocabulary < 1 || limits.context < 1 || limits.blocks < 1 || limits.block_tokens < 1 || limits.step_outputs < 1) {
        return InvalidFile("rank 0 says that it can compute nothing");
      }
    }
    rank.facts = ready->facts;
    rank.ready = true;
  } else if (const auto* beat = std::get_if<BeatMessage>(&message)) {
    rank.load = beat->load;
  } else {
    return InvalidFile(fmt::format("rank {} sent what only a supervisor sends", number));
  }
  return OkStatus();
}

void Replica::Beat() {
  const auto now = Clock::now();
  const bool due = now >= next_beat_;
  if (due) next_beat_ = now + kBeatEvery;
  for (Rank& rank : ranks_) {
    if (rank.control == nullptr) continue;
    // A rank that reads nothing is not sent more and more.
    if (due && rank.control->unsent() == 0) rank.control->Put(EncodeControl(BeatMessage{}));
    static_cast<void>(rank.control->Write().ok());  // a broken channel shows when it is read
  }
}

Status Replica::LookForLost() {
  const auto now = Clock::now();
  for (int number = 0; number < static_cast<int>(ranks_.size()); ++number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    if (rank.control == nullptr) {
      if (now - started_ > options_.start_patience) return Lost(number, fmt::format("has not come within {} s; {}", options_.start_patience.count() / 1000, said_));
      continue;
    }
    if (rank.child.pid() > 0 && rank.child.Ended()) {
      SKEIN_RETURN_IF_ERROR(TakeFrom(number));  // what it said last
      return Lost(number, rank.child.how());
    }
    if (now - rank.heard > (rank.ready ? options_.rank_patience : options_.load_patience)) {
      return Lost(number, fmt::format("has been silent for {:.1f} s", std::chrono::duration<double>(now - rank.heard).count()));
    }
  }
  if (launcher_.pid() > 0 && launcher_.Ended()) {
    ReadOutput();
    return Status(Code::kUnavailable, fmt::format("mpirun {}; it said: {}", launcher_.how(), said_.empty() ? "nothing" : said_));
  }
  return OkStatus();
}

// What mpirun and its ranks write is kept for errors.
void Replica::ReadOutput() {
  char block[1024];
  for (ssize_t got = 0; (got = ::read(output_.get(), block, sizeof block)) > 0;) said_.append(block, static_cast<std::size_t>(got));
  if (said_.size() > kSaidMax) said_.erase(0, said_.size() - kSaidMax);
}

void Replica::Receive() {
  while (true) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) break;
    const Peer peer = PeerOf(socket.get());
    if (!peer.may_come || guests_.size() >= kGuestsMax + kConnectionsOfRank * ranks_.size()) continue;
    guests_.push_back({std::make_unique<engine::FrameStream>(std::move(socket), HelloFrames()), peer.pid, Clock::now()});
  }
  for (Guest& guest : guests_) ReceiveFrom(guest);
  std::erase_if(guests_, [](const Guest& guest) { return guest.stream == nullptr || Clock::now() - guest.came > kGuestPatience; });
}

// Lets it in when it knows the secret; otherwise its connection is closed.
void Replica::ReceiveFrom(Guest& guest) {
  const Status read = guest.stream->Read();
  const Result<std::span<const std::byte>> frame = guest.stream->Next();
  if (frame.ok() && frame->empty() && read.ok()) return;
  if (frame.ok() && !frame->empty()) {
    const Result<ControlMessage> message = DecodeControl(*frame);
    const HelloMessage* hello = message.ok() ? std::get_if<HelloMessage>(&*message) : nullptr;
    if (hello != nullptr && SameSecret(hello->secret, secret_)) return Admit(guest, *hello);
  }
  guest.stream = nullptr;
}

void Replica::Admit(Guest& guest, const HelloMessage& hello) {
  const std::unique_ptr<engine::FrameStream> stream = std::exchange(guest.stream, nullptr);
  if (hello.rank < 0 || hello.rank >= static_cast<int>(ranks_.size())) return;
  Rank& rank = ranks_[static_cast<std::size_t>(hello.rank)];
  Descriptor socket(::fcntl(stream->descriptor(), F_DUPFD_CLOEXEC, 0));
  if (hello.purpose == HelloMessage::Purpose::kEngine) {
    if (hello.rank == 0 && !engine_.valid() && !rank.ready) engine_ = std::move(socket);
    return;
  }
  if (hello.purpose == HelloMessage::Purpose::kModel) {
    if (options_.serve_model && rank.control != nullptr && !std::exchange(rank.has_model, true)) options_.serve_model(std::move(socket));
    return;
  }
  if (rank.control != nullptr) return;
  rank.pid = guest.pid;
  rank.heard = Clock::now();
  rank.control = std::make_unique<engine::FrameStream>(std::move(socket), ControlFrames());
  rank.control->Put(EncodeControl(SetupOf(hello.rank)));
}

// A rank of mpirun has ended when its channel is closed.
bool Replica::HasEnded(Rank& rank) {
  if (rank.child.pid() > 0) return rank.child.Ended();
  if (rank.control != nullptr && !rank.control->Read().ok()) rank.control = nullptr;
  return rank.control == nullptr;
}

void Replica::Stop() {
  engine_.Close();
  for (Rank& rank : ranks_) {
    if (rank.control == nullptr) continue;
    rank.control->Put(EncodeControl(StopMessage{}));
    static_cast<void>(rank.control->Write().ok());
  }
  const auto deadline = Clock::now() + options_.stop_patience;
  for (Rank& rank : ranks_) {
    while (!HasEnded(rank) && Clock::now() < deadline) std::this_thread::sleep_for(kEndLookEvery);
  }
  if (launcher_.pid() > 0) static_cast<void>(launcher_.WaitForEnd(kMpirunPatience));
}

}  // namespace skein::supervisor
