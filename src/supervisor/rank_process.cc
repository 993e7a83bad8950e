// SPDX-License-Identifier: Apache-2.0
#include "supervisor/rank_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/thread_without_signals.h"
#include "engine/engine_service.h"
#include "supervisor/endpoint.h"

namespace skein::supervisor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSetupPatience{10};
constexpr std::chrono::seconds kFlushPatience{1};
constexpr std::chrono::milliseconds kProgressEvery{50};
constexpr int kLookEveryMs = 100;
// Exit statuses that only a log of processes ever sees.
constexpr int kFailedExit = 1;
constexpr int kOrphanExit = 5;

constexpr const char* kNotARank = "skein rank is started by skein itself; use skein serve or skein run with --transport shm or mpi";

engine::FrameStreamOptions ControlFrames() { return {kControlMagic, kControlVersion, kControlBytesMax}; }

bool IsSocket(int descriptor) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 && S_ISSOCK(found.st_mode);
}

// A connection on which has been said who wants it and for what.
Result<Descriptor> ConnectAs(HelloMessage hello, HelloMessage::Purpose purpose, const std::string& endpoint) {
  SKEIN_ASSIGN_OR_RETURN(Descriptor socket, ConnectTo(endpoint));
  hello.purpose = purpose;
  const std::vector<std::byte> frame = EncodeControl(hello);
  if (::send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(frame.size())) {
    return Status(Code::kUnavailable, "the supervisor does not take this rank");
  }
  return socket;
}

// Where MPI's launchers say which rank a process is.
int RankFromEnvironment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* text = std::getenv(name); text != nullptr) return std::atoi(text);
  }
  return -1;
}

}  // namespace

RankContext::RankContext(Descriptor control, Descriptor engine, WakeEvent wake)
    : engine_(std::move(engine)), control_(std::move(control), ControlFrames()), wake_(std::move(wake)) {}

RankContext::~RankContext() {
  ended_.store(true);
  wake_.Set();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<RankContext>> RankContext::Connect() {
  SKEIN_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  const char* name = std::getenv(kSocketVariable);
  if (name == nullptr) {
    if (!IsSocket(kControlDescriptor)) return InvalidArgument(kNotARank);
    // Whatever becomes of the supervisor, its children go with it; where it went before this, its channel is closed.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return std::unique_ptr<RankContext>(new RankContext(Descriptor(kControlDescriptor), Descriptor(), std::move(wake)));
  }
  const char* secret = std::getenv(kSecretVariable);
  HelloMessage hello{secret == nullptr ? "" : secret, std::string(BuildId()), RankFromEnvironment(), HelloMessage::Purpose::kControl};
  SKEIN_ASSIGN_OR_RETURN(Descriptor control, ConnectAs(hello, HelloMessage::Purpose::kControl, name));
  Descriptor engine;
  if (hello.rank == 0) {
    SKEIN_ASSIGN_OR_RETURN(engine, ConnectAs(hello, HelloMessage::Purpose::kEngine, name));
  }
  std::unique_ptr<RankContext> context(new RankContext(std::move(control), std::move(engine), std::move(wake)));
  context->endpoint_ = name;
  context->hello_ = std::move(hello);
  return context;
}

Result<Descriptor> RankContext::ConnectToModel() const { return ConnectAs(hello_, HelloMessage::Purpose::kModel, endpoint_); }

Result<std::unique_ptr<RankContext>> RankContext::Join() {
  SKEIN_ASSIGN_OR_RETURN(std::unique_ptr<RankContext> context, Connect());
  SKEIN_RETURN_IF_ERROR(context->WaitForSetup());
  if (context->setup_.engine_descriptor >= 0 && !context->engine_.valid()) {
    context->engine_ = Descriptor(context->setup_.engine_descriptor);
  }
  context->thread_ = ThreadWithoutSignals([raw = context.get()] { raw->Loop(); });
  return context;
}

Status RankContext::WaitForSetup() {
  const auto deadline = Clock::now() + kSetupPatience;
  while (Clock::now() < deadline) {
    SKEIN_RETURN_IF_ERROR(control_.Write());
    pollfd watched{control_.descriptor(), static_cast<short>(POLLIN | (control_.unsent() > 0 ? POLLOUT : 0)), 0};
    ::poll(&watched, 1, kLookEveryMs);
    const Status read = control_.Read();
    SKEIN_ASSIGN_OR_RETURN(const std::span<const std::byte> frame, control_.Next());
    if (frame.empty()) {
      SKEIN_RETURN_IF_ERROR(read);
      continue;
    }
    SKEIN_ASSIGN_OR_RETURN(ControlMessage message, DecodeControl(frame));
    if (std::holds_alternative<BeatMessage>(message)) continue;
    RankSetup* setup = std::get_if<RankSetup>(&message);
    if (setup == nullptr) return InvalidFile("the supervisor's first message is not a setup");
    setup_ = std::move(*setup);
    if (endpoint_.starts_with(kTcpEndpoint)) clock_offset_ns_ = SteadyClock().NowNs() - setup_.now_ns;  // it was sent just now
    return OkStatus();
  }
  return Status(Code::kUnavailable, "the supervisor says nothing");
}

// Whether this is the program, and that the model, which the supervisor means.
Status RankContext::Check() {
  if (setup_.build != BuildId()) {
    return InvalidFile(fmt::format("rank {} is of build {}, its supervisor of build {}: install the same one everywhere", setup_.rank,
                                   BuildId(), setup_.build));
  }
  if (setup_.model.empty()) return OkStatus();
  const Result<ModelIdentity> found = IdentityOf(setup_.model);
  if (found.ok() && *found == setup_.identity) return OkStatus();
  if (setup_.streamed && !endpoint_.empty()) {
    model_is_remote_ = true;
    return OkStatus();
  }
  SKEIN_RETURN_IF_ERROR(found.status());
  return InvalidFile(fmt::format("{} is another file than it was: {} bytes, and {} before; start again", setup_.model, found->bytes,
                                 setup_.identity.bytes),
                     "MODEL");
}

void RankContext::Progress(std::uint64_t done, std::uint64_t total) {
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (done < total && now - last_progress_ < kProgressEvery) return;
    last_progress_ = now;
  }
  Send(ProgressMessage{done, total});
}

void RankContext::WaitForStop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_.load(); });
}

void RankContext::Fail(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (service_ != nullptr) service_->Mute();
    if (std::exchange(failed_, true)) return;
  }
  Send(FailedOf(status));
}

void RankContext::Send(ControlMessage message) {
  {
    const std::lock_guard lock(mutex_);
    outgoing_.push_back(std::move(message));
    idle_ = false;
  }
  wake_.Set();
}

void RankContext::Flush() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kFlushPatience, [this] { return idle_; });
}

engine::RankLoad RankContext::Load() {
  const std::lock_guard lock(mutex_);
  return load_ ? load_() : engine::RankLoad();
}

void RankContext::Loop() {
  auto heard = Clock::now();
  auto next_beat = heard;
  while (!ended_.load()) {
    std::vector<ControlMessage> outgoing;
    {
      const std::lock_guard lock(mutex_);
      outgoing.swap(outgoing_);
    }
    for (const ControlMessage& message : outgoing) control_.Put(EncodeControl(message));
    const auto now = Clock::now();
    if (now >= next_beat && control_.unsent() == 0) {
      control_.Put(EncodeControl(BeatMessage{Load()}));
      next_beat = now + kBeatEvery;
    }
    if (!control_.Write().ok()) ::_exit(kOrphanExit);
    if (control_.unsent() == 0) {
      const std::lock_guard lock(mutex_);
      idle_ = outgoing_.empty();
      changed_.notify_all();
    }
    pollfd watched[] = {{control_.descriptor(), static_cast<short>(POLLIN | (control_.unsent() > 0 ? POLLOUT : 0)), 0},
                        {wake_.descriptor(), POLLIN, 0}};
    ::poll(watched, 2, kLookEveryMs);
    wake_.Clear();
    const Status read = control_.Read();
    while (true) {
      const Result<std::span<const std::byte>> frame = control_.Next();
      if (!frame.ok()) ::_exit(kOrphanExit);
      if (frame->empty()) break;
      const Result<ControlMessage> message = DecodeControl(*frame);
      if (!message.ok()) ::_exit(kOrphanExit);
      heard = Clock::now();
      Take(*message);
    }
    // Whatever this process is in the middle of: nobody is there any more for whom it would be done.
    if (!read.ok() || Clock::now() - heard > kSupervisorPatience) ::_exit(kOrphanExit);
  }
}

void RankContext::Take(const ControlMessage& message) {
  if (!std::holds_alternative<StopMessage>(message)) return;  // a beat
  const std::lock_guard lock(mutex_);
  stopping_.store(true);
  if (service_ != nullptr) service_->Stop();
  changed_.notify_all();
}

Status RankContext::Work(const RankBody& body) {
  SKEIN_RETURN_IF_ERROR(Check());
  SKEIN_ASSIGN_OR_RETURN(RankWork work, body(*this));
  if (setup_.rank == 0 && work.client == nullptr) return InternalError("the first rank has no engine to serve");
  if (setup_.rank != 0 && work.run == nullptr) return InternalError(fmt::format("rank {} has nothing to do", setup_.rank));
  {
    const std::lock_guard lock(mutex_);
    load_ = work.load;
  }
  Send(ReadyMessage{work.facts});
  return setup_.rank == 0 ? Serve(*work.client) : work.run();
}

Status RankContext::Serve(engine::EngineClient& client) {
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<engine::EngineService> service, engine::EngineService::Create(client));
  {
    const std::lock_guard lock(mutex_);
    service_ = service.get();
    if (failed_) service->Mute();
    if (stopping_.load()) service->Stop();
  }
  const Status served = service->Serve(std::move(engine_));
  // A group that has failed keeps its process until the supervisor ends it: its engine may wait for ranks that are gone.
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    service_ = nullptr;
    failed = failed_;
  }
  if (failed) WaitForStop();
  return served;
}

void RunRank(const RankBody& body) {
  Result<std::unique_ptr<RankContext>> context = RankContext::Join();
  if (!context.ok()) {
    std::fprintf(stderr, "skein: %s\n", context.status().message().c_str());
    ::_exit(kFailedExit);
  }
  Status status;
  // Libraries throw when memory ends; everything of ours answers with a Status.
  try {
    status = (*context)->Work(body);
  } catch (const std::bad_alloc&) {
    status = LimitExceeded("memory that a rank's process may take is used up; allow more (ulimit -v) or take a smaller model or --context");
  } catch (const std::exception& error) {
    status = InternalError(fmt::format("nothing was expected to fail in a rank, found: {}", error.what()));
  }
  if (!status.ok()) (*context)->Fail(status);
  (*context)->Flush();
  // Whoever leaves with beats unread may take back by TCP what it said last. The supervisor closes the channel, which ends this process.
  if (!status.ok()) std::this_thread::sleep_for(kFlushPatience);
  ::_exit(status.ok() ? 0 : kFailedExit);
}

}  // namespace skein::supervisor
