// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_testing.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/check.h"

namespace skein::comm {
namespace {

std::vector<std::string> RunThreads(int members, const RankFunction& function) {
  std::vector<std::string> said(static_cast<std::size_t>(members));
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] { said[static_cast<std::size_t>(member)] = function(member); });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::string ReadAll(int descriptor) {
  std::string text;
  char block[512];
  for (ssize_t n = 0; (n = read(descriptor, block, sizeof block)) > 0;) text.append(block, static_cast<std::size_t>(n));
  return text;
}

std::vector<std::string> RunProcesses(int members, const RankFunction& function) {
  struct Child {
    pid_t process;
    int pipe;
  };
  std::vector<Child> children;
  for (int member = 0; member < members; ++member) {
    int ends[2];
    SKEIN_CHECK(pipe(ends) == 0);
    const pid_t process = fork();
    SKEIN_CHECK(process >= 0);
    if (process == 0) {
      const std::string said = function(member);
      const bool written = write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
      _exit(written ? 0 : 1);
    }
    close(ends[1]);
    children.push_back({process, ends[0]});
  }
  std::vector<std::string> said;
  for (const Child& child : children) {
    said.push_back(ReadAll(child.pipe));
    close(child.pipe);
    int status = 0;
    waitpid(child.process, &status, 0);
    if (WIFSIGNALED(status)) said.back() = "ended by signal " + std::to_string(WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) said.back() += " exit " + std::to_string(WEXITSTATUS(status));
  }
  return said;
}

}  // namespace

std::vector<std::string> RunRanks(RankKind kind, int members, const RankFunction& function) {
  return kind == RankKind::kThreads ? RunThreads(members, function) : RunProcesses(members, function);
}

Arena ArenaFor(RankKind kind, int members, std::size_t slot_bytes) {
  Result<Arena> arena = kind == RankKind::kThreads ? Arena::InProcess(members, slot_bytes) : Arena::Shared(members, slot_bytes);
  SKEIN_CHECK(arena.ok());
  return std::move(arena).value();
}

}  // namespace skein::comm
