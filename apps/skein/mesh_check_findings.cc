// SPDX-License-Identifier: Apache-2.0
#include "mesh_check_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <utility>

#include "bench_comm_figures.h"
#include "bench_kernels_measure.h"
#include "comm/transports/arena.h"
#include "comm/transports/mpi.h"
#include "jsonl.h"
#include "kernels/threads/thread_pool.h"
#include "run_program.h"

namespace skein::app {
namespace {

constexpr std::chrono::seconds kVersionPatience{10};
constexpr std::chrono::seconds kLinkPatience{60}, kSpeedPatience{60};
// What another host is asked for its speed.
constexpr const char* kSpeedArguments = "mesh check --transport none --json --quiet";
// Every pair of so many hosts is measured, a second each; of more, the first with each other one.
constexpr std::size_t kAllPairsMax = 6;
// Less than this beside the fastest: its peers would notice that they wait.
constexpr double kAlike = 0.85;
constexpr std::size_t kHostsMax = 64, kHostNameMax = 253;
// Ranks log with their own clocks and requests have deadlines: more than this and they tell different stories.
constexpr std::int64_t kClockMaxNs = 100'000'000;
// Of messages between two ranks of one host, microseconds: beyond, they share a core or the machine is busy.
constexpr double kSlowHereUs = 20;
// Between hosts: a token of a small model takes about 10 ms and 60 exchanges.
constexpr double kSlowLinkUs = 100;

const std::vector<std::size_t> kSizes{4096, 65536, 1048576};
constexpr const char* kSizesText = "4096,65536,1048576";

std::string FirstLine(std::string_view text) {
  std::string line(text.substr(0, std::min(text.find('\n'), text.size())));
  // What a terminal is shown must not command it.
  for (char& c : line) c = c < ' ' || c == 0x7f ? ' ' : c;
  constexpr std::size_t kShown = 160;
  return line.substr(0, kShown);
}

std::string LastLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const std::size_t begin = text.rfind('\n');
  return FirstLine(begin == std::string_view::npos ? text : text.substr(begin + 1));
}

CommPlan PairPlan() {
  CommPlan plan;
  plan.ranks = 2;
  plan.sizes = kSizes;
  plan.wires = {comm::WireType::kBf16};
  plan.algorithms = {comm::Algorithm::kOneShot};
  return plan;
}

// Arguments of this program for the ranks of an MPI job that measure the same.
std::vector<std::string> PairArguments(const std::string& program) {
  return {program, "bench", "comm", "--transport", "mpi", "--csv", "--size", kSizesText, "--wire", "bf16", "--algorithm", "one_shot"};
}

// In a container everybody is root, of which Open MPI wants to be told that it is meant.
const std::vector<std::string>& MpiEnvironment() {
  static const std::vector<std::string> environment{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  return environment;
}

Finding SpeedFinding(std::string name, const std::vector<CommRow>& rows, const std::string& transport, double slow_us, std::string fix) {
  const LinkFit fit = FitLink(rows, transport);
  double reduce_us = 0;
  for (const CommRow& row : rows) {
    if (row.transport == transport && row.algorithm != kMessage && row.algorithm != kMpiAllReduce && row.bytes == kSizes.front()) reduce_us = row.median_us;
  }
  std::string meaning = fmt::format("a message takes {:.1f} µs and {:.1f} GB/s, an all-reduce of {} KB {:.1f} µs", fit.alpha_us, fit.gigabytes_per_s,
                                    kSizes.front() / 1024, reduce_us);
  if (fit.alpha_us <= slow_us) return {std::move(name), "ok", std::move(meaning), ""};
  return {std::move(name), "warn", meaning + "; a token of a model on ranks waits for two of them in each layer", std::move(fix)};
}

// Ranks of this host on threads or in processes.
Finding ExamineTransport(const std::string& transport) {
  const Result<std::vector<CommRow>> rows = MeasureOnHost(PairPlan(), transport);
  if (!rows.ok()) return {transport, "fail", rows.status().message(), "skein bench comm --transport " + transport};
  return SpeedFinding(transport, *rows, transport, kSlowHereUs, "give this process a core for each rank (taskset, cgroups), and nothing else to do");
}

Finding ExamineMpirun(const std::string& mpirun) {
  if (mpirun.empty()) return {"mpirun", "warn", "not found; --transport mpi needs it, and so do ranks on several hosts", "sudo apt-get install -y openmpi-bin"};
  const Result<ProgramOutcome> outcome = RunProgram(mpirun, {"--version"}, kVersionPatience, MpiEnvironment());
  if (!outcome.ok() || !outcome->well) {
    return {"mpirun", "fail", fmt::format("{} is there and does not tell its version", mpirun), "mpirun --version"};
  }
  // "mpirun (Open MPI) 4.1.4", or another word in front.
  const std::string version = FirstLine(outcome->output);
  return {"mpirun", "ok", fmt::format("{}, {}", mpirun, version.substr(std::min(version.find('('), version.size()))), ""};
}

Finding ExaminePlugin() {
  if (comm::MpiJob::Available()) return {"mpi plugin", "ok", "libskein_mpi.so can be loaded", ""};
  return {"mpi plugin", "warn", "libskein_mpi.so cannot be loaded; --transport mpi needs it beside the program",
          "sudo apt-get install -y libopenmpi-dev, then build again"};
}

Finding ExamineMpi(const std::string& mpirun) {
  const Result<std::string> program = OwnProgram();
  if (!program.ok()) return {"mpi", "fail", program.status().message(), ""};
  std::vector<std::string> arguments{"-n", "2", "--oversubscribe"};
  const std::vector<std::string> ranks = PairArguments(*program);
  arguments.insert(arguments.end(), ranks.begin(), ranks.end());
  const Result<ProgramOutcome> outcome = RunProgram(mpirun, arguments, kLinkPatience, MpiEnvironment());
  if (!outcome.ok()) return {"mpi", "fail", outcome.status().message(), ""};
  const Result<std::vector<CommRow>> rows = ReadLinkRows(outcome->output);
  if (!outcome->well || !rows.ok()) {
    return {"mpi", "fail", fmt::format("two ranks under mpirun {}: {}", outcome->in_time ? outcome->how : "do not end", LastLine(outcome->output)),
            "skein bench comm --transport mpi"};
  }
  return SpeedFinding("mpi", *rows, "mpi", kSlowHereUs, "give this process a core for each rank (taskset, cgroups), and nothing else to do");
}

Finding ExamineSharedMemory() {
  const Result<comm::Arena> arena = comm::Arena::Shared(2);
  if (arena.ok()) return {"shared memory", "ok", "processes of this host can share memory without a name", ""};
  return {"shared memory", "fail", arena.status().message() + "; --transport shm needs it", "ulimit -v unlimited; ulimit -n 1024"};
}

Finding ExamineCoresForRanks() {
  const int cores = kernels::AvailableCores();
  if (cores >= 2) return {"cores for ranks", "ok", fmt::format("up to {} ranks have a core of their own", cores), ""};
  return {"cores for ranks", "warn", "one core: ranks here only take turns", "nproc; taskset -p $$"};
}

// How other hosts are spoken to: ssh as mpirun would use it, or what was given in its place.
struct Agent {
  std::string path;
  std::vector<std::string> options;
  std::string AsText() const {
    std::string text = path;
    for (const std::string& option : options) text += " " + option;
    return text;
  }
};

Result<Agent> AgentOf(const MeshCheckOptions& options) {
  if (!options.agent.empty()) {
    Agent agent{FindProgram(options.agent), {}};
    if (agent.path.empty()) return MissingError(fmt::format("--agent is expected to be a program that can be run, found '{}'", options.agent), "--agent");
    return agent;
  }
  Agent agent{FindProgram("ssh"), {"-o", "BatchMode=yes", "-o", fmt::format("ConnectTimeout={}", options.patience_s)}};
  if (agent.path.empty()) return MissingError("hosts are reached by ssh, found none in PATH; sudo apt-get install -y openssh-client, or see --agent", "--agent");
  return agent;
}

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool IsKnown(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const bool known = ::getaddrinfo(host.c_str(), nullptr, &hints, &found) == 0;
  if (found != nullptr) ::freeaddrinfo(found);
  return known;
}

// What was found about one host; reached: it may take part in measurements.
struct HostFindings {
  std::vector<Finding> findings;
  bool reached = false;
  HostSpeed speed;  // zeros: it did not tell
};

// All hosts at the same time, as ranks would.
void MeasureSpeed(const std::string& host, const Agent& agent, const std::string& program, HostFindings& found) {
  std::vector<std::string> arguments = agent.options;
  arguments.push_back(host);
  arguments.push_back(fmt::format("{} {}", ShellWord(program), kSpeedArguments));
  const Result<ProgramOutcome> outcome = RunProgram(agent.path, arguments, kSpeedPatience);
  const std::string name = host + " speed", command = fmt::format("{} {} {} {}", agent.AsText(), host, program, kSpeedArguments);
  if (!outcome.ok()) return found.findings.push_back({name, "warn", outcome.status().message(), command});
  const Result<HostSpeed> speed = ReadHostSpeed(outcome->output);
  if (!outcome->well || !speed.ok()) {
    return found.findings.push_back({name, "warn", fmt::format("its kernels {}: {}", outcome->in_time ? outcome->how : "take too long", LastLine(outcome->output)), command});
  }
  found.speed = *speed;
  found.findings.push_back(SpeedOf(name, *speed));
}

HostFindings ExamineHost(const std::string& host, const Agent& agent, const std::string& program, std::chrono::seconds patience,
                         const std::string& own) {
  HostFindings all;
  const std::string connect = agent.AsText() + " " + host + " true";
  const bool known = IsKnown(host);
  std::vector<std::string> arguments = agent.options;
  arguments.push_back(host);
  arguments.push_back(fmt::format("{} --version && date +%s%N", ShellWord(program)));
  const std::int64_t before_ns = NowNs();
  const Result<ProgramOutcome> outcome = RunProgram(agent.path, arguments, patience + std::chrono::seconds(1));
  const std::int64_t after_ns = NowNs();
  const auto fails = [&](std::string what, std::string meaning, std::string fix) {
    all.findings.push_back({host + " " + what, "fail", std::move(meaning), std::move(fix)});
    return all;
  };
  if (!outcome.ok()) return fails("reach", outcome.status().message(), "");
  if (!outcome->in_time) return fails("reach", fmt::format("no answer within {} s", patience.count()), connect);
  constexpr std::string_view kSshFailed = "ended with status 255";
  if (!outcome->well && (!known || outcome->how == kSshFailed)) {
    return fails("reach", known ? fmt::format("cannot be reached: {}", LastLine(outcome->output)) : "its name is not known here", known ? connect : "getent hosts " + host);
  }
  const Result<HostAnswer> answer = ReadHostAnswer(outcome->output);
  if (!outcome->well || !answer.ok()) {
    return fails("version", fmt::format("{} does not run there: {}", FirstLine(program), LastLine(outcome->output)),
                 "install the same skein at the same path there, or see --remote-program");
  }
  all.reached = true;
  all.findings.push_back({host + " reach", "ok", fmt::format("answers within {} ms", (after_ns - before_ns) / 1'000'000), ""});
  if (answer->version == own) all.findings.push_back({host + " version", "ok", own, ""});
  else all.findings.push_back({host + " version", "fail", fmt::format("{}, here it is {}; ranks must be the same build", answer->version, own), "install the same build everywhere"});
  all.findings.push_back(CompareClocks(host, answer->clock_ns, before_ns, after_ns));
  return all;
}

// The link between two hosts, by an MPI job with a rank on each.
Finding ExamineLink(const std::string& from, const std::string& to, const std::string& mpirun, const Agent& agent, const std::string& program) {
  const std::string name = fmt::format("{} link", to);
  std::vector<std::string> arguments{"--mca", "plm_rsh_agent", agent.AsText(), "--host", fmt::format("{}:1,{}:1", from, to), "-n", "2"};
  if (std::getenv("SKEIN_MPI_PLUGIN") != nullptr) arguments.insert(arguments.end(), {"-x", "SKEIN_MPI_PLUGIN"});
  const std::vector<std::string> ranks = PairArguments(program);
  arguments.insert(arguments.end(), ranks.begin(), ranks.end());
  const Result<ProgramOutcome> outcome = RunProgram(mpirun, arguments, kLinkPatience, MpiEnvironment());
  if (!outcome.ok()) return {name, "fail", outcome.status().message(), ""};
  const Result<std::vector<CommRow>> rows = ReadLinkRows(outcome->output);
  if (!outcome->well || !rows.ok()) {
    return {name, "fail", fmt::format("ranks on {} and {} {}: {}", from, to, outcome->in_time ? outcome->how : "do not end", LastLine(outcome->output)),
            fmt::format("mpirun --host {}:1,{}:1 -n 2 hostname; firewalls must let MPI's ports through", from, to)};
  }
  return SpeedFinding(name, *rows, "mpi", kSlowLinkUs, "choose the fast network: OMPI_MCA_btl_tcp_if_include; take --pipe between hosts and --tensor within them");
}

}  // namespace

std::vector<Finding> ExamineHere(const MeshCheckOptions& options) {
  std::vector<Finding> findings;
  for (Finding& finding : ExamineMachine()) {
    if (finding.name == "processor" || finding.name == "cores" || finding.name == "memory" || finding.name == "huge pages") findings.push_back(std::move(finding));
  }
  findings.push_back(ExamineCoresForRanks());
  findings.push_back(ExamineSharedMemory());
  const auto wanted = [&](std::string_view transport) { return options.transport == "all" || options.transport == transport; };
  for (const char* transport : {"threads", "shm"}) {
    if (wanted(transport)) findings.push_back(ExamineTransport(transport));
  }
  if (!wanted("mpi")) return findings;
  const std::string mpirun = FindProgram("mpirun");
  findings.push_back(ExamineMpirun(mpirun));
  findings.push_back(ExaminePlugin());
  if (findings[findings.size() - 2].status == "ok" && findings.back().status == "ok") findings.push_back(ExamineMpi(mpirun));
  return findings;
}

Result<std::vector<std::string>> HostNames(const std::string& list) {
  std::vector<std::string> hosts;
  std::string_view rest = list;
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view host = rest.substr(0, comma);
    // As --hosts of serve has them, with how many ranks each shall have; here one name is one host.
    const std::size_t colon = host.find(':');
    if (colon != std::string_view::npos && colon + 1 < host.size() && host.find_first_not_of("0123456789", colon + 1) == std::string_view::npos) {
      host = host.substr(0, colon);
    }
    const bool plain = std::all_of(host.begin(), host.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
    });
    // A name that begins with a dash would be an option of ssh's.
    if (host.empty() || !plain || host.front() == '-' || host.size() > kHostNameMax) {
      return InvalidArgument(fmt::format("--hosts is expected to be names or IPv4 addresses with commas between them, found '{}'", FirstLine(host)), "--hosts");
    }
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.emplace_back(host);
    if (hosts.size() > kHostsMax) return LimitExceeded(fmt::format("--hosts takes at most {} hosts", kHostsMax), "--hosts");
    if (comma == rest.size()) return hosts;
    rest.remove_prefix(comma + 1);
  }
}

Result<HostAnswer> ReadHostAnswer(std::string_view output) {
  const std::string number = LastLine(output);
  HostAnswer answer;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), answer.clock_ns);
  // Whatever a login shell says comes before.
  const std::size_t version = output.rfind("skein ");
  if (error != std::errc() || end != number.data() + number.size() || answer.clock_ns <= 0 || version == std::string_view::npos) {
    return InvalidFile("a host was expected to answer with a version and its time");
  }
  answer.version = FirstLine(output.substr(version));
  return answer;
}

Result<HostSpeed> MeasureHostSpeed() {
  const kernels::KernelPath path = kernels::AvailablePaths().front();
  kernels::ThreadPool pool(kernels::AvailableCores());
  SKEIN_ASSIGN_OR_RETURN(const std::vector<KernelRate> rates,
                         MeasureLinear(pool, path, {.k = 1024, .outputs = 4096, .formats = {kernels::WeightFormat::kW4Min}, .rows = {1, 512}}));
  return HostSpeed{.prompt = rates.back().operations / rates.back().seconds, .token = rates.front().operations / rates.front().seconds};
}

Result<HostSpeed> ReadHostSpeed(std::string_view output) {
  const std::size_t begin = output.find("{\"findings\"");
  if (begin == std::string_view::npos) return InvalidFile("a host was expected to answer with what it found");
  output = output.substr(begin);
  SKEIN_ASSIGN_OR_RETURN(const boost::json::value answer, ParseJson(output.substr(0, output.find('\n')), "a host's answer"));
  const boost::json::object* fields = answer.if_object();
  const auto number = [&](const char* name) {
    const boost::json::value* value = fields == nullptr ? nullptr : fields->if_contains(name);
    return value != nullptr && value->is_number() ? value->to_number<double>() : 0.0;
  };
  const HostSpeed speed{.prompt = number(kPromptSpeed), .token = number(kTokenSpeed)};
  // The lowest that a processor has and the highest that hardware of this world has.
  constexpr double kLeast = 1e6, kMost = 1e18;
  const auto possible = [](double rate) { return rate >= kLeast && rate <= kMost; };
  if (possible(speed.prompt) && possible(speed.token)) return speed;
  return InvalidFile(fmt::format("a host was expected to answer with {} and {}", kPromptSpeed, kTokenSpeed));
}

Finding SpeedOf(std::string name, const HostSpeed& speed) {
  return {std::move(name), "ok", fmt::format("4-bit weights: {:.0f} G operations/s in prompts, {:.0f} for a token", speed.prompt / 1e9, speed.token / 1e9), ""};
}

Finding CompareSpeeds(const std::vector<std::string>& hosts, const std::vector<HostSpeed>& speeds) {
  // Halfway between prompts and answers, of which a server has both.
  const auto both = [](const HostSpeed& speed) { return std::sqrt(speed.prompt * speed.token); };
  double fastest = 0;
  for (const HostSpeed& speed : speeds) fastest = std::max(fastest, both(speed));
  double slowest = 1;
  std::string list;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double share = both(speeds[i]) / fastest;
    slowest = std::min(slowest, share);
    list += fmt::format("{}{:.2f}", i > 0 ? "," : "", share);
  }
  if (slowest >= kAlike) return {"speeds", "ok", fmt::format("hosts are alike ({} of the fastest): equal shares are right", list), ""};
  return {"speeds", "warn", fmt::format("{} have {} of the fastest's speed; with equal shares it waits for the slowest", fmt::join(hosts, ", "), list),
          fmt::format("--rank-speeds {}, with a rank on each host; a number for each rank otherwise", list)};
}

Finding CompareClocks(const std::string& host, std::int64_t answered_ns, std::int64_t before_ns, std::int64_t after_ns) {
  // Somewhere between the two moments it looked at its clock.
  const std::int64_t apart_ns = answered_ns < before_ns ? before_ns - answered_ns : std::max<std::int64_t>(answered_ns - after_ns, 0);
  const auto ms = [](std::int64_t ns) { return ns / 1'000'000; };
  if (apart_ns <= kClockMaxNs) return {host + " clock", "ok", fmt::format("agrees with this host's, as far as {} ms can tell", ms(after_ns - before_ns)), ""};
  return {host + " clock", "warn", fmt::format("{} by at least {} ms; logs of ranks cannot be put in order", answered_ns < before_ns ? "behind" : "ahead", ms(apart_ns)),
          "sudo chronyc makestep, or timedatectl set-ntp true, on that host"};
}

Result<std::vector<CommRow>> ReadLinkRows(std::string_view output) {
  const std::string head = CommCsv({});
  const std::size_t begin = output.find(head);
  if (begin == std::string_view::npos) return InvalidFile("ranks were expected to write what they measured");
  std::string rows = head;
  constexpr int kCommas = 5;
  for (std::string_view rest = output.substr(begin + head.size()); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    if (line.starts_with("mpi,") && std::count(line.begin(), line.end(), ',') == kCommas) rows += std::string(line) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return CommFromCsv(rows);
}

std::vector<Finding> ExamineHosts(const std::vector<std::string>& hosts, const MeshCheckOptions& options, const std::string& own_version) {
  const Result<Agent> agent = AgentOf(options);
  if (!agent.ok()) return {{"agent", "fail", agent.status().message(), ""}};
  Result<std::string> program = options.remote_program.empty() ? OwnProgram() : Result<std::string>(options.remote_program);
  if (!program.ok()) return {{"program", "fail", program.status().message(), ""}};
  std::vector<HostFindings> found(hosts.size());
  std::vector<std::thread> asking;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    asking.emplace_back([&, i] {
      found[i] = ExamineHost(hosts[i], *agent, *program, std::chrono::seconds(options.patience_s), FirstLine(own_version));
      if (found[i].reached) MeasureSpeed(hosts[i], *agent, *program, found[i]);
    });
  }
  for (std::thread& thread : asking) thread.join();
  std::vector<Finding> findings;
  std::vector<std::string> reached;
  std::vector<HostSpeed> speeds;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    for (Finding& finding : found[i].findings) findings.push_back(std::move(finding));
    if (found[i].reached) reached.push_back(hosts[i]);
    if (found[i].speed.prompt > 0) speeds.push_back(found[i].speed);
  }
  if (reached.size() < 2) return findings;
  if (speeds.size() == reached.size()) findings.push_back(CompareSpeeds(reached, speeds));
  const std::string mpirun = FindProgram("mpirun");
  findings.push_back(ExamineMpirun(mpirun));
  if (findings.back().status != "ok") return findings;
  // One after the other: together they would measure each other.
  const std::size_t centres = reached.size() <= kAllPairsMax ? reached.size() : 1;
  for (std::size_t from = 0; from < centres; ++from) {
    for (std::size_t to = from + 1; to < reached.size(); ++to) {
      findings.push_back(ExamineLink(reached[from], reached[to], mpirun, *agent, *program));
      if (from > 0) findings.back().name = fmt::format("{} to {} link", reached[from], reached[to]);
    }
  }
  return findings;
}

}  // namespace skein::app
