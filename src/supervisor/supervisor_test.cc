// SPDX-License-Identifier: Apache-2.0
//
// A supervisor and real processes: this program is also its own ranks (first argument `rank`) and, to be killed, a supervisor
// (`supervise`). Deadlines only tell hangs.
#include "supervisor/supervisor.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/simulated_executor.h"
#include "engine/token_sink.h"
#include "supervisor/endpoint.h"
#include "supervisor/rank_process.h"
#include "supervisor/simulated_rank.h"

namespace skein::supervisor {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 60s;
constexpr scheduler::StepCost kCost{.weights_ns = 2e6, .token_ns = 1e3};

bool HasMpirun() { return MpirunFor({}, 2).ok(); }

SupervisorOptions OptionsOf(const std::string& body = kSimulatedBody, const std::string& transport = "shm") {
  SupervisorOptions options;
  RankSetup& setup = options.replica.setup;
  setup.mesh.tensor = 2;
  setup.transport = transport;
  setup.body = body;
  setup.vocabulary = 300;
  setup.context = 400;
  setup.kv_tokens = 3200;
  setup.step_tokens = 40;
  setup.step_outputs = 16;
  setup.sequences = 8;
  if (transport == "shm") options.replica.arenas = {{.members = 2}};
  options.log = [](LogLevel, std::string_view text) { std::printf("log: %.*s\n", static_cast<int>(text.size()), text.data()); };
  return options;
}

// What each rank of these tests does.
Result<RankWork> TestBody(RankContext& context) {
  const RankSetup& setup = context.setup();
  const bool second = setup.rank == 1;
  if (setup.body == "does-not-fit" && second) return LimitExceeded("the model needs 9 GiB, 1 GiB is free", "context");
  if (setup.body == "dies-loading" && setup.incarnation > 1 && setup.incarnation < 4) std::abort();
  if (setup.body == "crashes" && second) std::abort();
  if (setup.transport == "shm") {
    if (setup.arena_descriptors.size() != 1) return InternalError("no arena was inherited");
    SKEIN_ASSIGN_OR_RETURN(comm::Arena arena, comm::Arena::Attach(setup.arena_descriptors[0]));
    if (arena.members() != 2 || !arena.TakeMember(setup.rank)) return InternalError("not the arena of this group");
  }
  if (setup.body == "loads-slowly") std::this_thread::sleep_for(1500ms);
  context.Progress(1, 2);
  context.Progress(2, 2);
  SKEIN_ASSIGN_OR_RETURN(RankWork work, SimulatedRank(context, kCost));
  if (second && setup.body == "gives-up" && setup.incarnation == 1) {
    work.run = [&context] {
      std::this_thread::sleep_for(100ms);
      context.Fail(Status(Code::kUnavailable, "all-reduce: rank 0 did not answer"));
      context.WaitForStop();
      return OkStatus();
    };
  }
  if (second && setup.body == "deaf") {
    work.run = []() -> Status {
      while (true) std::this_thread::sleep_for(1s);
    };
  }
  return work;
}

std::set<std::string> SharedMemory() {
  std::set<std::string> names;
  DIR* folder = ::opendir("/dev/shm");
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder)) names.insert(entry->d_name);
  ::closedir(folder);
  return names;
}

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  for (int i = 0; i < 4096; ++i) count += ::fcntl(i, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

bool Alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t paren = text.rfind(')');
  return paren != std::string::npos && text[paren + 2] != 'Z';
}

// Whether it becomes true in time.
bool Comes(const std::function<bool()>& fact, std::chrono::nanoseconds patience = kPatience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!fact()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

std::vector<engine::RequestSpec> Requests(std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  std::vector<engine::RequestSpec> requests;
  for (int i = 0; i < count; ++i) {
    engine::RequestSpec request{.request = {static_cast<std::uint64_t>(i + 1)}};
    request.prompt_tokens = 5 + static_cast<std::int32_t>(random() % 50);
    for (int j = 0; j < request.prompt_tokens; ++j) request.tokens.push_back(static_cast<TokenId>(random() % 300));
    request.max_tokens = 100 + static_cast<std::int32_t>(random() % 100);
    request.sampling.seed = random();
    requests.push_back(std::move(request));
  }
  return requests;
}

// What the simulated model answers: known from the tokens alone.
std::vector<TokenId> WantedOf(const engine::RequestSpec& request) {
  const engine::SimulatedExecutor model({.vocabulary = 300, .context = 400, .blocks = 200, .block_tokens = 16, .step_tokens = 40, .step_outputs = 16}, {});
  std::vector<TokenId> tokens = request.tokens;
  while (static_cast<std::int32_t>(tokens.size()) < request.prompt_tokens + request.max_tokens) {
    tokens.push_back(model.NextToken(tokens, request.sampling.seed, request.choice));
  }
  return {tokens.begin() + request.prompt_tokens, tokens.end()};
}

// Runs the requests and does something to the service meanwhile; every answer has to be what it would have been.
void Judge(engine::EngineClient& client, const std::vector<engine::RequestSpec>& requests, const std::function<void()>& meanwhile) {
  std::vector<std::shared_ptr<engine::CollectingSink>> sinks;
  for (const engine::RequestSpec& request : requests) {
    sinks.push_back(std::make_shared<engine::CollectingSink>());
    ASSERT_TRUE(client.Submit(request, sinks.back()).ok());
  }
  meanwhile();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(Comes([&] { return sinks[i]->finished(); })) << "request " << i << " does not end";
    EXPECT_EQ(sinks[i]->WaitForEnd().reason, engine::FinishReason::kLength) << sinks[i]->WaitForEnd().error;
    EXPECT_EQ(sinks[i]->TokenIds(), WantedOf(requests[i])) << "request " << i;
  }
}

std::unique_ptr<Supervisor> StartOrFail(SupervisorOptions options) {
  auto started = Supervisor::Start(std::move(options));
  EXPECT_TRUE(started.ok()) << started.status().message();
  return started.ok() ? std::move(*started) : nullptr;
}

class Transport : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "mpi" && !HasMpirun()) GTEST_SKIP() << "no mpirun here";
  }
};

// A rank that dies or freezes would end answers, or change them.
TEST_P(Transport, LosingARankChangesNoAnswer) {
  const auto before = SharedMemory();
  std::atomic<std::uint64_t> progress{0};
  SupervisorOptions options = OptionsOf(kSimulatedBody, GetParam());
  options.replica.progress = [&](std::uint64_t done, std::uint64_t) { progress = done; };
  const auto supervisor = StartOrFail(std::move(options));
  ASSERT_NE(supervisor, nullptr);
  EXPECT_EQ(progress.load(), 4u) << "of both ranks";
  EXPECT_EQ(supervisor->facts().limits.context, 400);
  EXPECT_TRUE(supervisor->client().Health().ok());
  std::uint64_t restarts = 0;
  const std::size_t descriptors = OpenDescriptors();
  for (const int number : {SIGKILL, SIGSTOP}) {
    for (const std::size_t rank : {0u, 1u}) {
      const std::vector<pid_t> pids = supervisor->pids();
      ASSERT_EQ(pids.size(), 2u);
      for (const pid_t pid : pids) EXPECT_TRUE(Alive(pid));
      Judge(supervisor->client(), Requests(rank + static_cast<std::size_t>(number), 10), [&] {
        std::this_thread::sleep_for(50ms);
        ::kill(pids[rank], number);
        EXPECT_TRUE(Comes([&] { return !supervisor->client().Health().ok(); })) << "nobody noticed";
        EXPECT_TRUE(Comes([&] { return supervisor->client().Health().ok(); })) << "it does not come back";
      });
      for (const pid_t pid : pids) EXPECT_TRUE(Comes([&] { return !Alive(pid); })) << "process " << pid << " is left";
      EXPECT_EQ(supervisor->client().Stats().restarts, ++restarts);
    }
  }
  EXPECT_GE(supervisor->client().Stats().replays, 1u);
  EXPECT_TRUE(Comes([&] { return OpenDescriptors() <= descriptors; }, 5s)) << OpenDescriptors() << " descriptors, before " << descriptors;
  const std::vector<pid_t> last = supervisor->pids();
  supervisor->Shutdown();
  for (const pid_t pid : last) EXPECT_FALSE(Alive(pid)) << "process " << pid << " outlives its supervisor";
  if (std::string(GetParam()) == "shm") {
    EXPECT_EQ(SharedMemory(), before);
  }
}

// What is wrong with a command would be said in other words, or tried for ever.
TEST_P(Transport, AnErrorOfALoadingRankIsTheErrorOfTheStart) {
  const auto started = Supervisor::Start(OptionsOf("does-not-fit", GetParam()));
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().code(), Code::kLimit);
  EXPECT_EQ(started.status().message(), "the model needs 9 GiB, 1 GiB is free");
  EXPECT_EQ(started.status().field(), "context");
}

TEST_P(Transport, ARankThatCrashesWhileLoadingIsNamed) {
  const auto started = Supervisor::Start(OptionsOf("crashes", GetParam()));
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().code(), Code::kUnavailable);
  EXPECT_NE(started.status().message().find("rank 1"), std::string::npos) << started.status().message();
}

INSTANTIATE_TEST_SUITE_P(All, Transport, testing::Values("shm", "mpi"), [](const auto& given) { return std::string(given.param); });

// The program would not know the command that its own supervisor gives it.
TEST(SupervisorTest, TheProgramIsARank) {
  const char* program = std::getenv("SKEIN");
  if (program == nullptr) GTEST_SKIP() << "SKEIN does not name the program";
  SupervisorOptions options = OptionsOf();
  options.replica.program.path = program;
  const auto supervisor = StartOrFail(std::move(options));
  ASSERT_NE(supervisor, nullptr);
  Judge(supervisor->client(), Requests(9, 4), [&] {
    std::this_thread::sleep_for(100ms);
    ::kill(supervisor->pids()[1], SIGKILL);
  });
}

// A group whose collective failed would answer with errors.
TEST(SupervisorTest, AGroupThatGivesUpIsReplaced) {
  const auto supervisor = StartOrFail(OptionsOf("gives-up"));
  ASSERT_NE(supervisor, nullptr);
  Judge(supervisor->client(), Requests(5, 10), [] {});
  EXPECT_TRUE(Comes([&] { return supervisor->client().Stats().restarts == 1; }));
}

// A machine that has no memory for a moment would end the service.
TEST(SupervisorTest, StartsAgainUntilOneGoesWell) {
  const auto supervisor = StartOrFail(OptionsOf("dies-loading"));
  ASSERT_NE(supervisor, nullptr);
  Judge(supervisor->client(), Requests(6, 4), [&] { ::kill(supervisor->pids()[0], SIGKILL); });
}

// A rank that hangs would make the end of the program hang.
TEST(SupervisorTest, EndsRanksThatDoNotListen) {
  SupervisorOptions options = OptionsOf("deaf");
  options.replica.stop_patience = 200ms;
  const auto supervisor = StartOrFail(std::move(options));
  ASSERT_NE(supervisor, nullptr);
  const std::vector<pid_t> pids = supervisor->pids();
  ASSERT_EQ(pids.size(), 2u);
  supervisor->Shutdown();
  for (const pid_t pid : pids) EXPECT_FALSE(Alive(pid));
}

TEST(SupervisorTest, IsNoPartOfAnMpiJob) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const auto started = Supervisor::Start(OptionsOf());
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.status().code(), Code::kInvalidArgument);
  EXPECT_NE(started.status().message().find("--tensor 2 --transport mpi"), std::string::npos) << started.status().message();
}

// Orphans would keep memory and ports of a service that is gone.
void EndsWithItsSupervisor(const std::string& transport, int number) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto child = StartChild({"/proc/self/exe", {"supervise", transport}}, {}, {}, ends[1]);
  ASSERT_TRUE(child.ok());
  ::close(ends[1]);
  std::string said;
  char block[256];
  while (said.find("ranks ") == std::string::npos || said.back() != '\n') {
    const ssize_t got = ::read(ends[0], block, sizeof block);
    ASSERT_GT(got, 0) << said;
    said.append(block, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int first = 0, second = 0;
  ASSERT_EQ(std::sscanf(said.c_str() + said.find("ranks "), "ranks %d %d", &first, &second), 2) << said;
  EXPECT_TRUE(Alive(first) && Alive(second));
  ::kill(child->pid(), number);  // its group stays
  EXPECT_TRUE(Comes([&] { return !Alive(first) && !Alive(second); })) << "ranks outlive a supervisor";
  child->Kill();
}

TEST(SupervisorTest, RanksEndWithAKilledSupervisor) { EndsWithItsSupervisor("shm", SIGKILL); }
// They hear nothing from it for five seconds.
TEST(SupervisorTest, RanksEndWithAFrozenSupervisor) { EndsWithItsSupervisor("shm", SIGSTOP); }
TEST(SupervisorTest, RanksOfMpiEndWithAKilledSupervisor) {
  if (!HasMpirun()) GTEST_SKIP() << "no mpirun here";
  EndsWithItsSupervisor("mpi", SIGKILL);
}

// What a rank that is told this setup answers.
Status AnswerTo(RankSetup setup) {
  int ends[2];
  SKEIN_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Descriptor far(ends[1]);
  engine::FrameStream control(Descriptor(ends[0]), {kControlMagic, kControlVersion, kControlBytesMax});
  control.Put(EncodeControl(setup));
  SKEIN_CHECK(control.Write().ok());
  auto child = StartChild({}, {far.get()});
  SKEIN_CHECK(child.ok());
  Status answer;
  EXPECT_TRUE(Comes([&] {
    static_cast<void>(control.Read().ok());
    while (true) {
      const auto frame = control.Next();
      if (!frame.ok() || frame->empty()) return false;
      const auto message = DecodeControl(*frame);
      if (!message.ok()) return false;
      if (const auto* failed = std::get_if<FailedMessage>(&*message)) {
        answer = StatusOf(*failed);
        return true;
      }
    }
  }));
  return answer;
}

// Two builds would disagree about bytes, two files about weights, and nobody would know why.
TEST(SupervisorTest, AnotherBuildOrModelIsNamed) {
  RankSetup setup = OptionsOf().replica.setup;
  setup.build = "0.0.1-other";
  const Status build = AnswerTo(setup);
  EXPECT_EQ(build.code(), Code::kInvalidFile);
  EXPECT_NE(build.message().find("0.0.1-other"), std::string::npos) << build.message();
  setup.build = BuildId();
  setup.model = "/proc/self/exe";
  setup.identity = {1, 1};
  const Status model = AnswerTo(setup);
  EXPECT_EQ(model.code(), Code::kInvalidFile);
  EXPECT_NE(model.message().find("another file"), std::string::npos) << model.message();
}

// The name in the abstract namespace that a supervisor of this process listens under; empty: /proc does not tell.
std::string ListeningName() {
  std::ifstream sockets("/proc/net/unix");
  std::string line, name;
  while (std::getline(sockets, line)) {
    if (const std::size_t at = line.find("@skein-"); at != std::string::npos) name = line.substr(at + 1);
  }
  return name;
}

void StrangersComeTo(const std::string& name) {
  for (int i = 0; i < 40; ++i) {
    const auto stranger = ConnectTo(name);
    ASSERT_TRUE(stranger.ok()) << stranger.status().message();
    const HelloMessage::Purpose purpose = i % 4 == 0 ? HelloMessage::Purpose::kControl : HelloMessage::Purpose::kModel;
    auto hello = i % 2 == 0 ? EncodeControl(HelloMessage{"00000000000000000000000000000000", std::string(BuildId()), 1, purpose})
                            : std::vector<std::byte>(40, static_cast<std::byte>(i));
    if (i == 2) hello = EncodeControl(HelloMessage{std::string(kHelloBytesMax, '0'), std::string(BuildId()), 1, purpose});
    static_cast<void>(::send(stranger->get(), hello.data(), hello.size(), MSG_NOSIGNAL));
    char byte = 0;
    EXPECT_LE(::recv(stranger->get(), &byte, 1, 0), 0) << "a stranger was let in";
  }
}

// Starts ranks that load slowly, and has strangers come meanwhile. `listening`: where.
void StrangersAreTurnedAway(SupervisorOptions options, const std::function<std::string()>& listening) {
  std::atomic<int> served{0};
  options.replica.serve_model = [&](Descriptor) { ++served; };
  std::unique_ptr<Supervisor> supervisor;
  std::thread starting([&] { supervisor = StartOrFail(std::move(options)); });
  std::string name;
  Comes([&] { return !(name = listening()).empty() && ConnectTo(name).ok(); }, 5s);
  if (!name.empty()) StrangersComeTo(name);
  starting.join();
  if (name.empty()) GTEST_SKIP() << "where it listens cannot be seen";
  ASSERT_NE(supervisor, nullptr);
  EXPECT_TRUE(Comes([&] { return !ConnectTo(name).ok(); })) << "it listens though all ranks have come";
  Judge(supervisor->client(), Requests(8, 4), [] {});
  EXPECT_EQ(supervisor->client().Stats().restarts, 0u);
  EXPECT_EQ(served.load(), 0);
}

// Another program of this machine would take a rank's place, or fill the supervisor's memory.
TEST(SupervisorTest, StrangersAreTurnedAway) {
  if (!HasMpirun()) GTEST_SKIP() << "no mpirun here";
  StrangersAreTurnedAway(OptionsOf("loads-slowly", "mpi"), ListeningName);
}

// Another machine would, too, where ranks come by network.
TEST(SupervisorTest, StrangersOfTheNetworkAreTurnedAway) {
  if (!HasMpirun()) GTEST_SKIP() << "no mpirun here";
  std::string address;
  {
    const auto free = ListenAt("127.0.0.1");
    ASSERT_TRUE(free.ok());
    address = free->name.substr(kTcpEndpoint.size());
  }
  SupervisorOptions options = OptionsOf("loads-slowly", "mpi");
  options.replica.hosts = {{"127.0.0.1", 2}};
  options.replica.control_address = address;
  StrangersAreTurnedAway(std::move(options), [&] { return std::string(kTcpEndpoint) + address; });
}

int Supervise(const std::string& transport) {
  auto started = Supervisor::Start(OptionsOf(kSimulatedBody, transport));
  if (!started.ok()) {
    std::printf("%s\n", started.status().message().c_str());
    return 1;
  }
  std::vector<pid_t> pids;
  while ((pids = (*started)->pids()).size() < 2) std::this_thread::sleep_for(1ms);
  std::printf("ranks %d %d\n", pids[0], pids[1]);
  std::fflush(stdout);
  while (true) std::this_thread::sleep_for(1s);
}

}  // namespace
}  // namespace skein::supervisor

int main(int count, char** values) {
  if (count > 1 && std::string(values[1]) == "rank") skein::supervisor::RunRank(skein::supervisor::TestBody);
  if (count > 2 && std::string(values[1]) == "supervise") return skein::supervisor::Supervise(values[2]);
  testing::InitGoogleTest(&count, values);
  return RUN_ALL_TESTS();
}
