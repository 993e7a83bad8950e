// SPDX-License-Identifier: Apache-2.0
#include "engine/remote_engine.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/thread_without_signals.h"
#include "engine/engine.h"
#include "engine/engine_wire.h"
#include "scheduler/scheduler.h"

namespace skein::engine {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
// How often deadlines are looked at while no engine does.
constexpr std::int64_t kDeadlineLookNs = 20 * kNsPerMs;
// A frame has more than numbers alone: room for the rest of an event.
constexpr std::size_t kFrameBytesMin = 64u << 20;

// The largest event: logits of a whole step.
std::size_t FrameBytesMax(const ExecutorLimits& limits) {
  const auto outputs = static_cast<std::size_t>(std::max(limits.step_outputs, 1));
  return kFrameBytesMin + outputs * static_cast<std::size_t>(std::max(limits.vocabulary, 1)) * sizeof(float) * 2;
}

std::int32_t CapacityOf(const ExecutorLimits& limits) {
  return static_cast<std::int32_t>(std::min<std::int64_t>(limits.context, std::int64_t{limits.blocks} * limits.block_tokens));
}

// What counts since the start, of two engines after each other.
void AddCounts(const EngineStats& from, EngineStats& to) {
  to.steps += from.steps;
  to.step_ns += from.step_ns;
  to.communication_ns += from.communication_ns;
  to.prompt_tokens += from.prompt_tokens;
  to.generated_tokens += from.generated_tokens;
  for (std::size_t i = 0; i < to.step_tokens.size(); ++i) to.step_tokens[i] += from.step_tokens[i];
  to.preemptions += from.preemptions;
  to.refusals += from.refusals;
  to.prefix_queries += from.prefix_queries;
  to.prefix_hits += from.prefix_hits;
}

}  // namespace

Result<std::unique_ptr<RemoteEngine>> RemoteEngine::Create(RemoteEngineOptions options, const Clock& clock) {
  SKEIN_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  std::unique_ptr<RemoteEngine> engine(new RemoteEngine(std::move(options), clock, std::move(wake)));
  engine->thread_ = ThreadWithoutSignals([raw = engine.get()] { raw->Loop(); });
  return engine;
}

RemoteEngine::RemoteEngine(RemoteEngineOptions options, const Clock& clock, WakeEvent wake)
    : options_(std::move(options)), clock_(clock), wake_(std::move(wake)) {}

RemoteEngine::~RemoteEngine() { Shutdown(); }

Status RemoteEngine::Submit(RequestSpec request, std::shared_ptr<TokenSink> sink) {
  SKEIN_CHECK(sink != nullptr);
  std::optional<ExecutorLimits> limits;
  {
    const std::lock_guard lock(mutex_);
    limits = known_limits_;
  }
  if (limits) {
    SKEIN_RETURN_IF_ERROR(scheduler::Scheduler::CheckFor(StateOf(request), limits->vocabulary, CapacityOf(*limits)));
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status(Code::kUnavailable, "the engine is shutting down");
    if (alive_.size() >= options_.requests) return Status(Code::kUnavailable, "the engine's queue is full; try again later");
    if (!alive_.insert(request.request.value).second) return InvalidArgument("a request of that number is alive already");
    submitted_.push_back({std::move(request), std::move(sink), clock_.NowNs()});
  }
  wake_.Set();
  return OkStatus();
}

void RemoteEngine::Cancel(RequestId request) {
  {
    const std::lock_guard lock(mutex_);
    if (!alive_.contains(request.value)) return;
    cancels_.push_back(request);
  }
  wake_.Set();
}

void RemoteEngine::Wake() { wake_.Set(); }

EngineStats RemoteEngine::Stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = latest_;
  AddCounts(earlier_, stats);
  stats.restarts = earlier_.restarts;
  stats.replays = earlier_.replays;
  return stats;
}

Status RemoteEngine::Health() const {
  const std::lock_guard lock(mutex_);
  return attached_ ? OkStatus() : Status(Code::kUnavailable, "the engine's processes are being started");
}

void RemoteEngine::Attach(Descriptor connection, const ExecutorLimits& limits) {
  Order({std::move(connection), limits});
}

void RemoteEngine::Detach() { Order({}); }

// Hands a change to the thread and waits for it, unless this is that thread.
void RemoteEngine::Order(Change change) {
  std::unique_lock lock(mutex_);
  change_ = std::move(change);
  const std::uint64_t mine = ++changes_asked_;
  wake_.Set();
  if (std::this_thread::get_id() == thread_.get_id()) return;
  changed_.wait(lock, [&] { return changes_done_ >= mine || closed_; });
}

void RemoteEngine::Shutdown() {
  const std::lock_guard one_at_a_time(shutdown_mutex_);
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  wake_.Set();
  if (thread_.joinable()) thread_.join();
}

void RemoteEngine::Loop() {
  while (TakeOrders()) {
    DeliverHeld();
    if (stream_ == nullptr) {
      ExpireDeadlines();
    } else if (const Status status = Pump(); !status.ok()) {
      Lose(status);
      continue;  // what to wait for has changed
    }
    Poll();
  }
  EndEverything();
}

// Takes in what other threads asked for. False: shut down.
bool RemoteEngine::TakeOrders() {
  std::vector<Submitted> submitted;
  std::vector<RequestId> cancels;
  std::optional<Change> change;
  std::uint64_t asked = 0;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    submitted.swap(submitted_);
    cancels.swap(cancels_);
    change.swap(change_);
    asked = changes_asked_;
  }
  if (change) {
    ApplyChange(std::move(*change));
    const std::lock_guard lock(mutex_);
    changes_done_ = asked;
    changed_.notify_all();
  }
  for (Submitted& one : submitted) TakeSubmitted(std::move(one));
  for (const RequestId request : cancels) TakeCancel(request);
  return true;
}

void RemoteEngine::ApplyChange(Change change) {
  stream_ = nullptr;
  const bool attaches = change.connection.valid();
  if (attaches) {
    limits_ = change.limits;
    stream_ = std::make_unique<FrameStream>(std::move(change.connection),
                                            FrameStreamOptions{kEngineMagic, kEngineVersion, FrameBytesMax(limits_)});
  }
  {
    const std::lock_guard lock(mutex_);
    AddCounts(latest_, earlier_);
    latest_ = {};
    attached_ = attaches;
    if (attaches) {
      known_limits_ = limits_;
      if (attached_before_) {
        ++earlier_.restarts;
        earlier_.replays += requests_.size();
      }
      attached_before_ = true;
    }
  }
  for (auto request = requests_.begin(); request != requests_.end();) {
    const auto next = std::next(request);
    const std::int64_t now_ns = clock_.NowNs();
    if (request->second.cancelled) {
      End(request, request->second.End(FinishReason::kCancelled, now_ns));
    } else if (attaches) {
      const FinishReason end = request->second.EndWithout(CapacityOf(limits_));
      if (end == FinishReason::kNone) {
        Send(request->second);
      } else {
        End(request, request->second.End(end, now_ns));
      }
    }
    request = next;
  }
}

void RemoteEngine::TakeSubmitted(Submitted submitted) {
  const std::uint64_t id = submitted.spec.request.value;
  const auto [request, is_new] =
      requests_.emplace(id, RemoteRequest(std::move(submitted.spec), std::move(submitted.sink), submitted.submitted_ns));
  SKEIN_CHECK(is_new);
  if (stream_ != nullptr) Send(request->second);
}

void RemoteEngine::TakeCancel(RequestId id) {
  const auto request = requests_.find(id.value);
  if (request == requests_.end()) return;
  if (stream_ == nullptr) return End(request, request->second.End(FinishReason::kCancelled, clock_.NowNs()));
  if (std::exchange(request->second.cancelled, true)) return;
  stream_->Put(EncodeMessage(CancelMessage{id}));
}

void RemoteEngine::Send(RemoteRequest& request) {
  stream_->Put(EncodeMessage(request.Replay(clock_.NowNs())));
}

void RemoteEngine::Lose(const Status& status) {
  ApplyChange({});
  if (options_.on_lost) options_.on_lost(status);
}

Status RemoteEngine::Pump() {
  const Status read = stream_->Read();
  SKEIN_RETURN_IF_ERROR(TakeMessages());
  SKEIN_RETURN_IF_ERROR(read);
  return stream_->Write();
}

// Stands before its use: clang 19 does not instantiate it from within the lambda otherwise.
template <typename Event>
Status RemoteEngine::TakeEvent(Event event) {
  const auto found = requests_.find(event.request.value);
  if (found == requests_.end()) return OkStatus();  // of an older epoch, and the request has ended
  RemoteRequest& request = found->second;
  if constexpr (std::is_same_v<Event, FinishedEvent>) {
    SKEIN_ASSIGN_OR_RETURN(const bool is_new, request.Take(std::move(event), clock_.NowNs()));
    if (!is_new) return OkStatus();
    // Whoever cancels may not be reading any more: what is held for him is not waited for.
    if (request.cancelled && !request.holds_end()) {
      End(found, request.End(FinishReason::kCancelled, clock_.NowNs()));
      return OkStatus();
    }
  } else {
    SKEIN_ASSIGN_OR_RETURN(const bool is_new, request.Take(std::move(event), limits_));
    if (!is_new) return OkStatus();
  }
  Deliver(found);
  return OkStatus();
}

Status RemoteEngine::TakeMessages() {
  while (true) {
    SKEIN_ASSIGN_OR_RETURN(const std::span<const std::byte> frame, stream_->Next());
    if (frame.empty()) return OkStatus();
    SKEIN_ASSIGN_OR_RETURN(Message message, DecodeMessage(frame));
    SKEIN_RETURN_IF_ERROR(std::visit(
        [this](auto&& value) -> Status {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, EngineStats>) {
            return Take(value);
          } else if constexpr (std::is_same_v<T, PromptEvent> || std::is_same_v<T, TokenEvent> || std::is_same_v<T, FinishedEvent>) {
            return TakeEvent(std::move(value));
          } else {
            return InvalidFile("a message that only a client sends came to a client");
          }
        },
        std::move(message)));
  }
}

Status RemoteEngine::Take(EngineStats stats) {
  const std::lock_guard lock(mutex_);
  latest_ = stats;
  return OkStatus();
}

void RemoteEngine::DeliverHeld() {
  if (stream_ == nullptr) return;
  for (auto request = requests_.begin(); request != requests_.end();) {
    const auto next = std::next(request);
    if (request->second.holds()) Deliver(request);
    request = next;
  }
}

// Gives the sink what it has room for. The request may be gone afterwards.
void RemoteEngine::Deliver(Requests::iterator found) {
  RemoteRequest& request = found->second;
  while (request.holds() && (request.holds_end() || request.sink().HasRoom())) {
    SinkEvent event = request.TakeHeld(clock_.NowNs());
    if (auto* finished = std::get_if<FinishedEvent>(&event)) return End(found, std::move(*finished));
    if (auto* prompt = std::get_if<PromptEvent>(&event)) {
      request.sink().OnPrompt(std::move(*prompt));
    } else {
      request.sink().OnToken(std::move(std::get<TokenEvent>(event)));
    }
  }
  if (const std::uint32_t credit = request.TakeCredit(); credit > 0) {
    stream_->Put(EncodeMessage(CreditMessage{request.spec().request, request.spec().epoch, credit}));
  }
}

void RemoteEngine::ExpireDeadlines() {
  const std::int64_t now_ns = clock_.NowNs();
  for (auto request = requests_.begin(); request != requests_.end();) {
    const auto next = std::next(request);
    const std::int64_t deadline_ns = request->second.spec().deadline_ns;
    if (deadline_ns != 0 && deadline_ns <= now_ns) {
      FinishedEvent event = request->second.End(FinishReason::kError, now_ns);
      event.error = "the request's deadline has passed";
      event.refused = !request->second.begun();
      End(request, std::move(event));
    }
    request = next;
  }
}

void RemoteEngine::End(Requests::iterator found, FinishedEvent event) {
  const RemoteRequest ended = std::move(found->second);
  requests_.erase(found);
  {
    const std::lock_guard lock(mutex_);
    alive_.erase(event.request.value);  // before the sink hears of it, so that it may submit the request again
  }
  ended.sink().OnFinished(std::move(event));
}

void RemoteEngine::EndEverything() {
  stream_ = nullptr;
  std::vector<Submitted> submitted;
  {
    const std::lock_guard lock(mutex_);
    attached_ = false;
    submitted.swap(submitted_);
    changes_done_ = changes_asked_;
  }
  for (Submitted& one : submitted) TakeSubmitted(std::move(one));
  while (!requests_.empty()) {
    const auto request = requests_.begin();
    End(request, request->second.End(FinishReason::kCancelled, clock_.NowNs()));
  }
}

void RemoteEngine::Poll() {
  const bool holds = stream_ != nullptr && std::any_of(requests_.begin(), requests_.end(), [](const auto& entry) { return entry.second.holds(); });
  const bool expires = stream_ == nullptr && std::any_of(requests_.begin(), requests_.end(), [](const auto& entry) { return entry.second.spec().deadline_ns != 0; });
  const std::int64_t look_ns = holds ? options_.held_look_ns : kDeadlineLookNs;
  std::array<pollfd, 2> watched{pollfd{wake_.descriptor(), POLLIN, 0}};
  if (stream_ != nullptr) {
    watched[1] = {stream_->descriptor(), static_cast<short>(POLLIN | (stream_->unsent() > 0 ? POLLOUT : 0)), 0};
  }
  ::poll(watched.data(), stream_ == nullptr ? 1 : 2, holds || expires ? static_cast<int>(std::max<std::int64_t>(look_ns / kNsPerMs, 1)) : -1);
  if (watched[0].revents != 0) wake_.Clear();
}

}  // namespace skein::engine
