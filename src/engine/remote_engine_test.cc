// SPDX-License-Identifier: Apache-2.0
//
// Both ends of the wire in one process: a RemoteEngine, a socket pair, an EngineService, a real engine that simulates.
// SKEIN_REMOTE_SEEDS=N runs so many seeds of cuts.
#include "engine/remote_engine.h"

#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/wire.h"
#include "engine/engine.h"
#include "engine/engine_service.h"
#include "engine/engine_wire.h"
#include "engine/paced_executor.h"
#include "engine/simulated_executor.h"
#include "engine/token_sink.h"

namespace skein::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 60s;  // tells a hang from slowness
constexpr ExecutorLimits kLimits{.vocabulary = 300, .context = 400, .blocks = 200, .block_tokens = 16, .step_tokens = 40, .step_outputs = 16};
// Steps short enough for a test and long enough for cuts to fall between them.
constexpr scheduler::StepCost kCost{.weights_ns = 100e3, .token_ns = 1e3};

const SteadyClock& TestClock() {
  static const SteadyClock clock;
  return clock;
}

std::unique_ptr<Engine> MakeEngine() {
  auto engine = Engine::Create(std::make_unique<PacedExecutor>(std::make_unique<SimulatedExecutor>(kLimits, kCost)),
                               {.sequences = 8}, TestClock());
  SKEIN_CHECK(engine.ok());
  return std::move(*engine);
}

std::pair<Descriptor, Descriptor> MakePair() {
  int ends[2];
  SKEIN_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// An engine behind a service, as a process of its own would have it. Replaced by another one, it remembers nothing.
class FarEngine {
 public:
  FarEngine() : engine_(MakeEngine()) {
    auto service = EngineService::Create(*engine_);
    SKEIN_CHECK(service.ok());
    service_ = std::move(*service);
  }
  ~FarEngine() {
    service_->Stop();
    if (thread_.joinable()) thread_.join();
  }
  // The near end of a new connection, which is cut when the far engine goes or CutOff is called.
  Descriptor Connect() {
    if (thread_.joinable()) thread_.join();
    auto [near, far] = MakePair();
    far_number_ = far.get();
    thread_ = std::thread([this, far = std::move(far)]() mutable { served_ = service_->Serve(std::move(far)); });
    return std::move(near);
  }
  Status Served() {
    thread_.join();
    return served_;
  }
  Engine& engine() { return *engine_; }
  EngineService& service() { return *service_; }
  int far_number() const { return far_number_; }

 private:
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<EngineService> service_;
  int far_number_ = -1;
  Status served_;
  std::thread thread_;
};

std::unique_ptr<RemoteEngine> MakeRemote(std::function<void(const Status&)> on_lost = {}) {
  auto remote = RemoteEngine::Create({.held_look_ns = 1'000'000, .on_lost = std::move(on_lost)}, TestClock());
  SKEIN_CHECK(remote.ok());
  return std::move(*remote);
}

// Collects, judges the order of what comes, and is at times without room.
class JudgingSink final : public TokenSink {
 public:
  explicit JudgingSink(std::int32_t first_index, bool moody = false) : next_index_(first_index), moody_(moody) {}
  bool HasRoom() const override {
    if (shut.load()) return false;
    return !moody_ || looks_.fetch_add(1) % 3 != 0;
  }
  void OnPrompt(PromptEvent event) override {
    EXPECT_FALSE(ended_.load());
    EXPECT_EQ(event.first_position, next_position_) << "positions of a prompt";
    next_position_ += static_cast<std::int32_t>(std::max(event.scores.size(), event.logits.size() / static_cast<std::size_t>(kLimits.vocabulary)));
    scores.insert(scores.end(), event.scores.begin(), event.scores.end());
    logits.insert(logits.end(), event.logits.begin(), event.logits.end());
    ++events;
  }
  void OnToken(TokenEvent event) override {
    EXPECT_FALSE(ended_.load());
    EXPECT_EQ(event.index, next_index_++) << "a token lost or repeated";
    tokens.push_back(std::move(event.token));
    ++events;
  }
  void OnFinished(FinishedEvent event) override {
    EXPECT_FALSE(ended_.exchange(true)) << "two ends";
    end_.set_value(std::move(event));
  }
  FinishedEvent WaitForEnd() {
    auto future = end_.get_future();
    if (future.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "a request does not end";
      return {};
    }
    return future.get();
  }
  bool ended() const { return ended_.load(); }

  std::atomic<bool> shut{false};
  std::atomic<int> events{0};
  std::vector<scheduler::ScoredToken> tokens, scores;
  std::vector<float> logits;

 private:
  std::int32_t next_index_ = 0;
  std::int32_t next_position_ = 0;
  const bool moody_;
  mutable std::atomic<int> looks_{0};
  std::atomic<bool> ended_{false};
  std::promise<FinishedEvent> end_;
};

class Asking {
 public:
  explicit Asking(std::uint64_t seed) : random_(seed) {}
  int Between(int low, int high) { return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1)); }
  RequestSpec Request(std::uint64_t id) {
    RequestSpec request{.request = {id}, .epoch = static_cast<std::uint32_t>(Between(0, 2))};
    request.prompt_tokens = Between(1, 60);
    for (int i = 0; i < request.prompt_tokens; ++i) request.tokens.push_back(Between(0, kLimits.vocabulary - 1));
    request.max_tokens = Between(0, 4) == 0 ? 0 : Between(1, 150);
    request.min_tokens = Between(0, 10);
    request.choice = Between(0, 2);
    request.sampling.seed = random_();
    if (Between(0, 1) == 0) request.stop_tokens = {Between(0, 99), Between(100, 199)};
    request.top_logprobs = Between(0, 3) == 0 ? 2 : 0;
    if (Between(0, 2) == 0) request.prompt_output = Between(0, 1) == 0 ? PromptOutput::kScores : PromptOutput::kLogits;
    if (Between(0, 9) == 0) {  // goes on in the middle of an answer
      for (int i = Between(1, 5); i > 0; --i) request.tokens.push_back(Between(200, kLimits.vocabulary - 1));
    }
    return request;
  }

 private:
  std::mt19937_64 random_;
};

struct Answer {
  std::vector<scheduler::ScoredToken> tokens, scores;
  std::vector<float> logits;
  FinishReason reason = FinishReason::kNone;
  bool operator==(const Answer&) const = default;
};

std::vector<Answer> AnswersOf(EngineClient& client, const std::vector<RequestSpec>& requests, bool moody) {
  std::vector<std::shared_ptr<JudgingSink>> sinks;
  for (const RequestSpec& request : requests) {
    sinks.push_back(std::make_shared<JudgingSink>(static_cast<std::int32_t>(request.tokens.size()) - request.prompt_tokens, moody));
    EXPECT_TRUE(client.Submit(request, sinks.back()).ok());
  }
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const FinishedEvent end = sinks[i]->WaitForEnd();
    EXPECT_EQ(end.request, requests[i].request);
    EXPECT_EQ(end.epoch, requests[i].epoch) << "the caller's own";
    EXPECT_EQ(static_cast<std::size_t>(end.generated_tokens), requests[i].tokens.size() - static_cast<std::size_t>(requests[i].prompt_tokens) + sinks[i]->tokens.size());
    EXPECT_EQ(end.prompt_tokens, requests[i].prompt_tokens);
    EXPECT_LE(end.cached_tokens, requests[i].prompt_tokens);
    EXPECT_LE(end.queued_ns, end.total_ns);
    EXPECT_LE(end.first_token_ns, end.total_ns);
    if (!sinks[i]->tokens.empty()) {
      EXPECT_GT(end.first_token_ns, 0);
      EXPECT_LE(end.queued_ns, end.first_token_ns);
    }
    answers.push_back({sinks[i]->tokens, sinks[i]->scores, sinks[i]->logits, end.reason});
  }
  return answers;
}

void Submit(Descriptor& connection, const Message& message) {
  const std::vector<std::byte> frame = EncodeMessage(message);
  ASSERT_EQ(::send(connection.get(), frame.data(), frame.size(), MSG_NOSIGNAL), static_cast<ssize_t>(frame.size()));
}

RequestSpec Small(std::uint64_t id, std::int32_t max_tokens = 8) {
  return {.request = {id}, .tokens = {1, 2, 3}, .prompt_tokens = 3, .max_tokens = max_tokens};
}

// Answers over the wire would differ from those of an engine beside the caller.
TEST(RemoteEngineTest, AnswersAsTheEngineItself) {
  Asking asking(1);
  std::vector<RequestSpec> requests;
  for (std::uint64_t id = 1; id <= 40; ++id) requests.push_back(asking.Request(id));
  const auto direct = MakeEngine();
  const std::vector<Answer> wanted = AnswersOf(*direct, requests, false);
  FarEngine far;
  const auto remote = MakeRemote();
  remote->Attach(far.Connect(), kLimits);
  EXPECT_EQ(AnswersOf(*remote, requests, false), wanted);
  EXPECT_EQ(AnswersOf(*remote, requests, true), wanted) << "with sinks that are full at times";
  EXPECT_TRUE(remote->Health().ok());
  EXPECT_EQ(remote->Stats().restarts, 0u);
}

// A client would see tokens twice, or not at all, when a rank dies.
TEST(RemoteEngineTest, AnswersAreTheSameWhateverIsCut) {
  const char* asked = std::getenv("SKEIN_REMOTE_SEEDS");
  const std::uint64_t seeds = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 6;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    Asking asking(seed);
    std::vector<RequestSpec> requests;
    for (std::uint64_t id = 1; id <= 25; ++id) requests.push_back(asking.Request(id));
    const auto direct = MakeEngine();
    const std::vector<Answer> wanted = AnswersOf(*direct, requests, false);

    const auto remote = MakeRemote();
    std::atomic<bool> over{false};
    std::thread trouble([&, random = std::mt19937_64(seed)]() mutable {
      auto far = std::make_unique<FarEngine>();
      for (int cuts = 0; cuts < 30 && !over.load(); ++cuts) {
        Descriptor near = far->Connect();
        const int number = near.get();
        remote->Attach(std::move(near), kLimits);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
        switch (random() % 3) {
          case 0: remote->Detach(); break;           // by the supervisor
          case 1: ::shutdown(number, SHUT_RDWR); break;  // by the network
          default: far = nullptr; break;             // by death
        }
        if (far == nullptr || random() % 2 == 0) far = std::make_unique<FarEngine>();
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
        remote->Detach();
      }
      remote->Attach(far->Connect(), kLimits);
      while (!over.load()) std::this_thread::sleep_for(1ms);
    });
    EXPECT_EQ(AnswersOf(*remote, requests, seed % 2 == 0), wanted);
    over.store(true);
    trouble.join();
  }
}

// One client that reads slowly would stop the answers of all, or fill the memory.
TEST(RemoteEngineTest, AFullSinkPausesItsRequestOnly) {
  FarEngine far;
  const auto remote = MakeRemote();
  remote->Attach(far.Connect(), kLimits);
  const auto shut = std::make_shared<JudgingSink>(0);
  shut->shut = true;
  ASSERT_TRUE(remote->Submit(Small(1, 300), shut).ok());
  const auto open = std::make_shared<JudgingSink>(0);
  ASSERT_TRUE(remote->Submit(Small(2, 300), open).ok());
  EXPECT_EQ(open->WaitForEnd().reason, FinishReason::kLength);
  EXPECT_EQ(shut->events.load(), 0);
  const auto begin = std::chrono::steady_clock::now();
  while (far.engine().Stats().paused != 1 && std::chrono::steady_clock::now() - begin < kPatience) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(far.engine().Stats().paused, 1u);
  EXPECT_LE(far.engine().Stats().generated_tokens, 300u + EventWindowOf(Small(1)));
  shut->shut = false;
  EXPECT_EQ(shut->WaitForEnd().generated_tokens, 300);
}

// A client's process that hangs would hang the engine and everybody else's answers.
TEST(RemoteEngineTest, APeerThatDoesNotReadBlocksNobody) {
  FarEngine far;
  Descriptor near = far.Connect();
  for (std::uint64_t id = 1; id <= 40; ++id) {
    RequestSpec request = Small(id, 300);
    request.prompt_output = PromptOutput::kLogits;
    Submit(near, request);
  }
  const auto sink = std::make_shared<JudgingSink>(0);
  ASSERT_TRUE(far.engine().Submit(Small(1000, 100), sink).ok());
  EXPECT_EQ(sink->WaitForEnd().reason, FinishReason::kLength);
}

// Requests of before the first connection, of between two, and those given up there would hang or be lost.
TEST(RemoteEngineTest, RequestsWaitForAnEngine) {
  const auto remote = MakeRemote();
  EXPECT_EQ(remote->Health().code(), Code::kUnavailable);
  const auto early = std::make_shared<JudgingSink>(0), cancelled = std::make_shared<JudgingSink>(0), late = std::make_shared<JudgingSink>(0);
  ASSERT_TRUE(remote->Submit(Small(1), early).ok());
  ASSERT_TRUE(remote->Submit(Small(2), cancelled).ok());
  EXPECT_EQ(remote->Submit(Small(2), cancelled).code(), Code::kInvalidArgument) << "alive already";
  RequestSpec dated = Small(3);
  dated.deadline_ns = TestClock().NowNs() + 30'000'000;
  ASSERT_TRUE(remote->Submit(dated, late).ok());
  remote->Cancel({2});
  EXPECT_EQ(cancelled->WaitForEnd().reason, FinishReason::kCancelled);
  const FinishedEvent refused = late->WaitForEnd();
  EXPECT_EQ(refused.reason, FinishReason::kError);
  EXPECT_TRUE(refused.refused);
  EXPECT_FALSE(early->ended());
  FarEngine far;
  remote->Attach(far.Connect(), kLimits);
  EXPECT_EQ(early->WaitForEnd().reason, FinishReason::kLength);
  RequestSpec wrong = Small(4);
  wrong.tokens[0] = kLimits.vocabulary;
  EXPECT_EQ(remote->Submit(wrong, early).code(), Code::kLimit) << "as the engine itself says it";
  const auto at_the_end = std::make_shared<JudgingSink>(0);
  at_the_end->shut = true;
  ASSERT_TRUE(remote->Submit(Small(5), at_the_end).ok());
  remote->Shutdown();
  EXPECT_EQ(at_the_end->WaitForEnd().reason, FinishReason::kCancelled);
  EXPECT_EQ(remote->Submit(Small(6), early).code(), Code::kUnavailable);
}

// A cancel would leave its sequence computing, or wait for a reader that is gone.
TEST(RemoteEngineTest, CancelsReachTheEngine) {
  FarEngine far;
  const auto remote = MakeRemote();
  remote->Attach(far.Connect(), kLimits);
  const auto sink = std::make_shared<JudgingSink>(0);
  ASSERT_TRUE(remote->Submit(Small(1, 390), sink).ok());
  while (sink->events.load() < 2 && !sink->ended()) std::this_thread::sleep_for(1ms);
  sink->shut = true;
  remote->Cancel({1});
  EXPECT_EQ(sink->WaitForEnd().reason, FinishReason::kCancelled);
  const auto again = std::make_shared<JudgingSink>(0);
  ASSERT_TRUE(remote->Submit(Small(1), again).ok()) << "its number is free";
  EXPECT_EQ(again->WaitForEnd().reason, FinishReason::kLength);
}

// Errors of a group of ranks that is about to be replaced would end requests that could go on.
TEST(RemoteEngineTest, WhatAMutedEngineSaysIsForNobody) {
  FarEngine broken;
  const auto remote = MakeRemote();
  remote->Attach(broken.Connect(), kLimits);
  const auto sink = std::make_shared<JudgingSink>(0);
  ASSERT_TRUE(remote->Submit(Small(1, 200), sink).ok());
  while (sink->events.load() < 2) std::this_thread::sleep_for(1ms);
  broken.service().Mute();
  broken.engine().Shutdown();  // ends everything alive
  FarEngine next;
  remote->Attach(next.Connect(), kLimits);
  EXPECT_EQ(sink->WaitForEnd().reason, FinishReason::kLength);
  EXPECT_EQ(remote->Stats().restarts, 1u);
  EXPECT_EQ(remote->Stats().replays, 1u);
}

// Figures of the whole service would jump back to zero whenever ranks are started anew.
TEST(RemoteEngineTest, CountsOutliveAnEngine) {
  const auto remote = MakeRemote();
  for (std::uint64_t round = 1; round <= 2; ++round) {
    FarEngine far;
    remote->Attach(far.Connect(), kLimits);
    const auto sink = std::make_shared<JudgingSink>(0);
    ASSERT_TRUE(remote->Submit(Small(round, 20), sink).ok());
    sink->WaitForEnd();
    const auto begin = std::chrono::steady_clock::now();
    while (remote->Stats().generated_tokens < 20 * round && std::chrono::steady_clock::now() - begin < kPatience) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(remote->Stats().generated_tokens, 20 * round);
    remote->Detach();
  }
}

// A damaged or hostile message would end the process that computes.
TEST(RemoteEngineTest, AServiceSurvivesWhateverComes) {
  FarEngine far;
  Asking asking(9);
  for (int round = 0; round < 300; ++round) {
    Descriptor near = far.Connect();
    for (int i = asking.Between(1, 6); i > 0; --i) {
      std::vector<std::byte> frame;
      switch (asking.Between(0, 3)) {
        case 0: frame = EncodeMessage(asking.Request(static_cast<std::uint64_t>(asking.Between(1, 4)))); break;
        case 1: frame = EncodeMessage(CreditMessage{{static_cast<std::uint64_t>(asking.Between(1, 4))}, static_cast<std::uint32_t>(asking.Between(0, 2)), static_cast<std::uint32_t>(asking.Between(0, 70))}); break;
        case 2: frame = EncodeMessage(CancelMessage{{static_cast<std::uint64_t>(asking.Between(1, 4))}}); break;
        default: frame = EncodeMessage(TokenEvent{}); break;
      }
      if (asking.Between(0, 1) == 0) {  // another body with the right checksum
        const auto kind = wire::PeekFrame(frame);
        std::vector<std::byte> body(frame.begin() + wire::kFrameHeaderBytes, frame.end() - 4);
        for (int j = 0; j < 3 && !body.empty(); ++j) body[static_cast<std::size_t>(asking.Between(0, static_cast<int>(body.size()) - 1))] = static_cast<std::byte>(asking.Between(0, 255));
        frame = wire::MakeFrame(*kind, body);
      } else if (asking.Between(0, 3) == 0) {
        frame[static_cast<std::size_t>(asking.Between(0, static_cast<int>(frame.size()) - 1))] ^= std::byte{0x11};
      }
      if (asking.Between(0, 9) == 0) frame.resize(frame.size() / 2);
      if (::send(near.get(), frame.data(), frame.size(), MSG_NOSIGNAL) < 0) break;
    }
    ::shutdown(near.get(), SHUT_WR);
    static_cast<void>(far.Served().ok());  // an end, whatever it is called
  }
  const auto sink = std::make_shared<JudgingSink>(0);
  ASSERT_TRUE(far.engine().Submit(Small(1'000'000'000, 10), sink).ok());
  EXPECT_EQ(sink->WaitForEnd().reason, FinishReason::kLength);
}

TEST(RemoteEngineTest, BrokenRulesAreNamed) {
  FarEngine far;
  {
    Descriptor near = far.Connect();
    Submit(near, TokenEvent{});
    EXPECT_EQ(far.Served().code(), Code::kInvalidFile);
  }
  {
    Descriptor near = far.Connect();
    std::vector<std::byte> frame = wire::MakeFrame({kEngineMagic, kEngineVersion + 1, 3}, {});
    ASSERT_GT(::send(near.get(), frame.data(), frame.size(), MSG_NOSIGNAL), 0);
    const Status status = far.Served();
    EXPECT_EQ(status.code(), Code::kInvalidFile);
    EXPECT_NE(status.message().find("version"), std::string::npos) << status.message();
  }
  {
    Descriptor near = far.Connect();
    wire::Writer writer;
    writer(kEngineMagic, kEngineVersion, std::uint16_t{1}, std::uint64_t{1} << 60);
    ASSERT_GT(::send(near.get(), writer.bytes().data(), writer.bytes().size(), MSG_NOSIGNAL), 0);
    EXPECT_EQ(far.Served().code(), Code::kInvalidFile) << "at once, not when 2^60 bytes have come";
  }
}

// A rank gone mad would end the serving process, or its nonsense would reach a client.
TEST(RemoteEngineTest, AClientSurvivesWhateverComes) {
  Asking asking(5);
  std::atomic<int> lost{0};
  const auto remote = MakeRemote([&](const Status& status) {
    EXPECT_FALSE(status.ok());
    ++lost;
  });
  const auto sink = std::make_shared<JudgingSink>(0);
  RequestSpec request = Small(1, 200);
  request.prompt_output = PromptOutput::kScores;
  ASSERT_TRUE(remote->Submit(request, sink).ok());
  for (int round = 0; round < 300; ++round) {
    auto [near, far] = MakePair();
    const int before = lost.load();
    remote->Attach(std::move(near), kLimits);
    for (int i = asking.Between(1, 5); i > 0; --i) {
      const auto epoch = static_cast<std::uint32_t>(round + asking.Between(-1, 1) + 1);
      Message message;
      switch (asking.Between(0, 3)) {
        case 0: message = TokenEvent{{1}, epoch, asking.Between(-1, 5) + 300, {asking.Between(-5, 400), 0, {}}}; break;
        case 1: message = PromptEvent{{1}, epoch, asking.Between(4, 9), std::vector<scheduler::ScoredToken>(static_cast<std::size_t>(asking.Between(0, 9))), {}, {}}; break;
        case 2: message = EngineStats{}; break;
        default: message = FinishedEvent{.request = {1}, .epoch = epoch, .reason = FinishReason::kNone}; break;
      }
      std::vector<std::byte> frame = EncodeMessage(message);
      if (asking.Between(0, 2) == 0) frame[static_cast<std::size_t>(asking.Between(0, static_cast<int>(frame.size()) - 1))] ^= std::byte{0x11};
      if (::send(far.get(), frame.data(), frame.size(), MSG_NOSIGNAL) < 0) break;
    }
    far.Close();
    const auto begin = std::chrono::steady_clock::now();
    while (lost.load() == before && std::chrono::steady_clock::now() - begin < kPatience) std::this_thread::sleep_for(100us);
    ASSERT_EQ(lost.load(), before + 1) << "once for each connection";
  }
  EXPECT_EQ(sink->events.load(), 0);
  FarEngine good;
  remote->Attach(good.Connect(), kLimits);
  EXPECT_EQ(sink->WaitForEnd().reason, FinishReason::kLength);
  EXPECT_EQ(sink->scores.size(), 2u);
}

}  // namespace
}  // namespace skein::engine
