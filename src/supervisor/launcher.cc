// SPDX-License-Identifier: Apache-2.0
#include "supervisor/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace skein::supervisor {
namespace {

constexpr std::chrono::milliseconds kLookEvery{5};
// A process that was killed goes at once, unless the kernel is in the middle of something for it.
constexpr std::chrono::seconds kKillPatience{10};
constexpr int kFirstInherited = 3;
constexpr int kCannotExecute = 127;

std::vector<char*> PointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const std::vector<std::string>& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct Start {
  const char* path;
  char** arguments;
  char** environment;
  const int* inherited;
  int inherited_count;
  int output;
};

// In the new process, a copy of one thread of many: only calls that are allowed there.
[[noreturn]] void BecomeChild(const Start& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
  // First out of the way of the numbers they shall have, then there.
  int moved[16];
  const int above = kFirstInherited + start.inherited_count;
  for (int i = 0; i < start.inherited_count; ++i) moved[i] = ::fcntl(start.inherited[i], F_DUPFD, above);
  const int output = start.output >= 0 ? ::fcntl(start.output, F_DUPFD, above) : STDERR_FILENO;
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  for (int i = 0; i < start.inherited_count; ++i) {
    if (::dup2(moved[i], kFirstInherited + i) < 0) ::_exit(kCannotExecute);
  }
  // Connections of the server's clients are not the ranks' business.
  if (::close_range(static_cast<unsigned>(above), UINT_MAX, 0) != 0) {
    for (int i = above; i < 4096; ++i) ::close(i);
  }
  ::execve(start.path, start.arguments, start.environment);
  ::_exit(kCannotExecute);
}

}  // namespace

bool Child::Ended() {
  if (ended_ || pid_ < 0) return true;
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  ended_ = true;
  if (got < 0) {
    how_ = "ended";  // reaped by somebody else
  } else if (WIFSIGNALED(status)) {
    how_ = fmt::format("was ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  } else {
    how_ = fmt::format("ended with status {}", WEXITSTATUS(status));
  }
  return true;
}

void Child::Signal(int number) {
  if (!Ended()) ::kill(pid_, number);
}

bool Child::WaitForEnd(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!Ended()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
  return true;
}

void Child::Kill() {
  if (pid_ < 0) return;
  if (!ended_) {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // it may not have its group yet
  }
  WaitForEnd(kKillPatience);
}

Result<Child> StartChild(const Program& program, const std::vector<int>& inherited, const std::vector<std::string>& environment, int output) {
  constexpr std::size_t kInheritedMax = 16;
  if (inherited.size() > kInheritedMax) return LimitExceeded(fmt::format("{} descriptors for a process, at most {}", inherited.size(), kInheritedMax));
  std::vector<std::string> arguments{"skein"};
  arguments.insert(arguments.end(), program.arguments.begin(), program.arguments.end());
  std::vector<std::string> variables = EnvironmentWith(environment);
  std::vector<char*> argument_pointers = PointersTo(arguments), variable_pointers = PointersTo(variables);
  const Start start{program.path.c_str(), argument_pointers.data(), variable_pointers.data(), inherited.data(),
                    static_cast<int>(inherited.size()), output};
  const pid_t pid = ::fork();
  if (pid < 0) return MissingError(fmt::format("no process can be started: {}; raise the limit (ulimit -u)", std::strerror(errno)));
  if (pid == 0) BecomeChild(start);
  ::setpgid(pid, pid);  // whoever is first
  return Child(pid);
}

Result<Program> MpirunFor(const Program& program, int ranks, const MpirunPlaces& places) {
  const char* path = std::getenv("PATH");
  std::string found;
  for (std::string rest = path == nullptr ? "" : path; !rest.empty() && found.empty();) {
    const std::size_t colon = rest.find(':');
    const std::string candidate = rest.substr(0, colon) + "/mpirun";
    if (::access(candidate.c_str(), X_OK) == 0) found = candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  if (found.empty()) return MissingError("--transport mpi needs mpirun, found none in PATH; install openmpi-bin, or take --transport shm", "transport");
  char self[PATH_MAX] = {};
  std::string executable = program.path;
  if (const ssize_t length = ::readlink(program.path.c_str(), self, sizeof self - 1); length > 0) executable.assign(self, static_cast<std::size_t>(length));
  if (!places.remote_program.empty()) executable = places.remote_program;
  Program mpirun{found, {"-n", std::to_string(ranks), "--oversubscribe", "--bind-to", "none", "--map-by", "slot"}};  // ranks are numbered host by host
  if (!places.hosts.empty()) {
    std::string list;
    for (const HostShare& host : places.hosts) list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host.name, host.ranks);
    mpirun.arguments.insert(mpirun.arguments.end(), {"--host", list});
  }
  // By name alone: what a variable holds is not for a list of processes.
  for (const std::string& name : places.variables) mpirun.arguments.insert(mpirun.arguments.end(), {"-x", name});
  if (::geteuid() == 0) mpirun.arguments.insert(mpirun.arguments.begin(), "--allow-run-as-root");
  mpirun.arguments.push_back(executable);
  mpirun.arguments.insert(mpirun.arguments.end(), program.arguments.begin(), program.arguments.end());
  return mpirun;
}

}  // namespace skein::supervisor
