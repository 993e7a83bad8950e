// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_service.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "engine/engine_wire.h"
#include "engine/frame_stream.h"

namespace skein::engine {
namespace {

// How often figures are sent while requests run, and how often the engine is asked again when it had no room. Milliseconds.
constexpr int kStatsEveryMs = 50;
constexpr int kRetryEveryMs = 2;
// Encoded ahead of the socket; the rest of the outbox is not turned into bytes yet.
constexpr std::size_t kEncodedAhead = 1u << 20;
constexpr std::size_t kBacklogTokensMax = 16u << 20;

std::size_t SizeOf(const PromptEvent& event) {
  std::size_t bytes = sizeof(event) + (event.logits.size() + event.hidden.size()) * sizeof(float);
  for (const scheduler::ScoredToken& score : event.scores) bytes += sizeof(score) + score.top.size() * sizeof(scheduler::TokenLogprob);
  return bytes;
}
std::size_t SizeOf(const TokenEvent& event) { return sizeof(event) + event.token.top.size() * sizeof(scheduler::TokenLogprob); }
std::size_t SizeOf(const FinishedEvent& event) { return sizeof(event) + event.error.size(); }
template <typename T>
std::size_t SizeOf(const T& message) {
  return sizeof(message);
}
std::size_t SizeOf(const Message& message) {
  return std::visit([](const auto& value) { return SizeOf(value); }, message);
}

// Events on their way from the engine thread to the connection's.
class Outbox {
 public:
  Outbox(std::size_t bytes_max, std::shared_ptr<WakeEvent> wake, std::shared_ptr<std::atomic<bool>> muted)
      : bytes_max_(bytes_max), wake_(std::move(wake)), muted_(std::move(muted)) {}

  bool HasRoom() const { return bytes_.load(std::memory_order_relaxed) < bytes_max_; }
  void Push(Message message) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || muted_->load()) return;
      bytes_.fetch_add(SizeOf(message), std::memory_order_relaxed);
      messages_.push_back(std::move(message));
      if (messages_.size() > 1) return;  // the connection was told and has not looked yet
    }
    wake_->Set();
  }
  void TakeAll(std::deque<Message>& into) {
    const std::lock_guard lock(mutex_);
    for (Message& message : messages_) into.push_back(std::move(message));
    messages_.clear();
  }
  // A message that was taken has gone out.
  void Sent(std::size_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    messages_.clear();
    bytes_.store(0, std::memory_order_relaxed);  // whoever is left shall not wait for room
  }

 private:
  const std::size_t bytes_max_;
  const std::shared_ptr<WakeEvent> wake_;
  const std::shared_ptr<std::atomic<bool>> muted_;
  std::atomic<std::size_t> bytes_{0};  // of messages_ and of what was taken and not sent
  std::mutex mutex_;
  std::vector<Message> messages_;  // under mutex_
  bool closed_ = false;            // under mutex_
};

// A request's events get the client's numbers back.
class ServiceSink final : public TokenSink {
 public:
  ServiceSink(std::shared_ptr<Outbox> outbox, RequestId request, std::uint32_t epoch, std::uint32_t window)
      : outbox_(std::move(outbox)), request_(request), epoch_(epoch), window_(window), credits_(window) {}

  bool HasRoom() const override { return credits_.load(std::memory_order_relaxed) > 0 && outbox_->HasRoom(); }
  void OnPrompt(PromptEvent event) override { Push(std::move(event)); }
  void OnToken(TokenEvent event) override { Push(std::move(event)); }
  void OnFinished(FinishedEvent event) override {
    event.request = request_;
    event.epoch = epoch_;
    outbox_->Push(std::move(event));
  }
  std::uint32_t epoch() const { return epoch_; }
  bool empty() const { return credits_.load(std::memory_order_relaxed) == 0; }
  // False when there would be more than a window.
  bool Add(std::uint32_t events) {
    if (events > window_) return false;
    return credits_.fetch_add(events, std::memory_order_relaxed) + events <= window_;
  }

 private:
  template <typename Event>
  void Push(Event event) {
    event.request = request_;
    event.epoch = epoch_;
    credits_.fetch_sub(1, std::memory_order_relaxed);
    outbox_->Push(std::move(event));
  }

  const std::shared_ptr<Outbox> outbox_;
  const RequestId request_;
  const std::uint32_t epoch_;
  const std::uint32_t window_;
  std::atomic<std::uint32_t> credits_;
};

}  // namespace

// One connection's life.
class EngineService::Connection {
 public:
  Connection(EngineService& service, Descriptor socket)
      : service_(service),
        stream_(std::move(socket), {kEngineMagic, kEngineVersion, service.options_.frame_bytes_max}),
        outbox_(std::make_shared<Outbox>(service.options_.outbox_bytes_max, service.wake_, service.muted_)) {}

  ~Connection() {
    outbox_->Close();
    for (const auto& [request, live] : live_) service_.engine_.Cancel(live.inner);
  }

  Status Run() {
    while (!service_.stopped_.load()) {
      RetryBacklog();
      SKEIN_RETURN_IF_ERROR(SendWhatCame());
      // Whoever does not read gets nothing answered.
      const int input = outbox_->HasRoom() ? POLLIN : 0;
      const int output = stream_.unsent() > 0 ? POLLOUT : 0;
      pollfd watched[] = {{stream_.descriptor(), static_cast<short>(input | output), 0},
                          {service_.wake_->descriptor(), POLLIN, 0}};
      ::poll(watched, 2, Patience());
      if (watched[1].revents != 0) service_.wake_->Clear();
      SendStatsNowAndThen();
      if (watched[0].revents != 0) {
        const Status read = stream_.Read();
        SKEIN_RETURN_IF_ERROR(TakeMessages());
        SKEIN_RETURN_IF_ERROR(read);
      }
    }
    return OkStatus();
  }

 private:
  struct Live {
    RequestId inner;
    std::shared_ptr<ServiceSink> sink;
  };

  int Patience() const {
    if (!backlog_.empty()) return kRetryEveryMs;
    return live_.empty() && !stats_due_ ? -1 : kStatsEveryMs;
  }

  Status TakeMessages() {
    while (true) {
      SKEIN_ASSIGN_OR_RETURN(const std::span<const std::byte> frame, stream_.Next());
      if (frame.empty()) return OkStatus();
      SKEIN_ASSIGN_OR_RETURN(Message message, DecodeMessage(frame));
      SKEIN_RETURN_IF_ERROR(Take(std::move(message)));
    }
  }

  Status Take(Message message) {
    if (auto* request = std::get_if<RequestSpec>(&message)) return Submit(std::move(*request));
    if (const auto* cancel = std::get_if<CancelMessage>(&message)) return Cancel(cancel->request);
    if (const auto* credit = std::get_if<CreditMessage>(&message)) return Credit(*credit);
    if (std::holds_alternative<StatsMessage>(message)) {
      if (stream_.unsent() < kEncodedAhead) SendStats(service_.engine_.Stats());
      return OkStatus();
    }
    return InvalidFile("a message that only an engine sends came to an engine");
  }

  Status Submit(RequestSpec spec) {
    if (live_.contains(spec.request.value)) {
      return InvalidFile(fmt::format("request {} was submitted twice", spec.request.value));
    }
    Live live{{++service_.last_request_},
              std::make_shared<ServiceSink>(outbox_, spec.request, spec.epoch, EventWindowOf(spec))};
    live_.emplace(spec.request.value, live);
    stats_due_ = true;
    spec.request = live.inner;
    if (!backlog_.empty() || !Give(spec, live.sink)) {
      if (backlog_.size() >= service_.options_.backlog_max || backlog_tokens_ >= kBacklogTokensMax) {
        live.sink->OnFinished({.reason = FinishReason::kError, .error = "too many requests wait for the engine", .refused = true,
                               .prompt_tokens = spec.prompt_tokens});
      } else {
        backlog_tokens_ += spec.tokens.size();
        backlog_.push_back({std::move(spec), live.sink});
      }
    }
    return OkStatus();
  }

  // False when the engine has no room now.
  bool Give(const RequestSpec& spec, const std::shared_ptr<ServiceSink>& sink) {
    const Status status = service_.engine_.Submit(spec, sink);
    if (status.code() == Code::kUnavailable) return false;
    if (!status.ok()) {
      sink->OnFinished({.reason = FinishReason::kError, .error = status.message(), .prompt_tokens = spec.prompt_tokens});
    }
    return true;
  }

  void RetryBacklog() {
    while (!backlog_.empty() && Give(backlog_.front().first, backlog_.front().second)) {
      backlog_tokens_ -= backlog_.front().first.tokens.size();
      backlog_.pop_front();
    }
  }

  Status Cancel(RequestId request) {
    const auto found = live_.find(request.value);
    if (found == live_.end()) return OkStatus();  // its end is under way
    const auto waiting = std::find_if(backlog_.begin(), backlog_.end(),
                                      [&](const auto& entry) { return entry.first.request == found->second.inner; });
    if (waiting == backlog_.end()) {
      service_.engine_.Cancel(found->second.inner);
      return OkStatus();
    }
    found->second.sink->OnFinished({.reason = FinishReason::kCancelled, .prompt_tokens = waiting->first.prompt_tokens});
    backlog_tokens_ -= waiting->first.tokens.size();
    backlog_.erase(waiting);
    return OkStatus();
  }

  Status Credit(const CreditMessage& credit) {
    const auto found = live_.find(credit.request.value);
    if (found == live_.end()) return OkStatus();
    ServiceSink& sink = *found->second.sink;
    if (credit.epoch != sink.epoch()) return InvalidFile("credit for an epoch of a request that is not served");
    const bool was_empty = sink.empty();
    if (!sink.Add(credit.events)) return InvalidFile("credit for more events than a request's window has");
    if (was_empty) service_.engine_.Wake();
    return OkStatus();
  }

  Status SendWhatCame() {
    outbox_->TakeAll(taken_);
    const bool was_full = !outbox_->HasRoom();
    while (true) {
      while (!taken_.empty() && stream_.unsent() < kEncodedAhead) {
        const Message& message = taken_.front();
        if (const auto* finished = std::get_if<FinishedEvent>(&message)) live_.erase(finished->request.value);
        stream_.Put(EncodeMessage(message));
        outbox_->Sent(SizeOf(message));
        taken_.pop_front();
      }
      if (const Status written = stream_.Write(); !written.ok()) return written;
      if (stream_.unsent() > 0 || taken_.empty()) break;
    }
    if (was_full && outbox_->HasRoom()) service_.engine_.Wake();
    return OkStatus();
  }

  // While requests run the client hears now and then how the engine is, and once after the last one has ended.
  void SendStatsNowAndThen() {
    const auto now = std::chrono::steady_clock::now();
    if (!stats_due_ || now < next_stats_) return;
    next_stats_ = now + std::chrono::milliseconds(kStatsEveryMs);
    const EngineStats stats = service_.engine_.Stats();
    stats_due_ = !live_.empty() || stats != last_stats_;
    if (stats != last_stats_) SendStats(stats);
  }

  void SendStats(const EngineStats& stats) {
    last_stats_ = stats;
    if (!service_.muted_->load()) stream_.Put(EncodeMessage(stats));
  }

  EngineService& service_;
  FrameStream stream_;
  const std::shared_ptr<Outbox> outbox_;
  std::unordered_map<std::uint64_t, Live> live_;  // by the client's number
  std::deque<std::pair<RequestSpec, std::shared_ptr<ServiceSink>>> backlog_;
  std::deque<Message> taken_;  // from the outbox, to be encoded
  EngineStats last_stats_;
  std::size_t backlog_tokens_ = 0;
  bool stats_due_ = true;
  std::chrono::steady_clock::time_point next_stats_;
};

Result<std::unique_ptr<EngineService>> EngineService::Create(EngineClient& engine, EngineServiceOptions options) {
  SKEIN_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  return std::unique_ptr<EngineService>(new EngineService(engine, options, std::move(wake)));
}

Status EngineService::Serve(Descriptor connection) {
  Connection serving(*this, std::move(connection));
  const Status ended = serving.Run();
  return ended.code() == Code::kUnavailable ? OkStatus() : ended;
}

void EngineService::Stop() {
  stopped_.store(true);
  wake_->Set();
}

}  // namespace skein::engine
