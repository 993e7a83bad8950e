// SPDX-License-Identifier: Apache-2.0
//
// Launcher starts a replica's processes and ends them. Two ways: *children* of this process, one per rank, which inherit their sockets
// and their shared memory and die with it; and *mpirun*, whose ranks are its children and inherit nothing: they come to a socket of the
// supervisor's with the replica's secret. Ranks on other hosts are started by mpirun's own means, ssh or a batch system.
//
// Thread rule: one thread, which lives as long as the processes: children are killed when the thread that started them ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "supervisor/hosts.h"

namespace skein::supervisor {

struct Program {
  std::string path = "/proc/self/exe";
  std::vector<std::string> arguments = {"rank"};
};

class Child {
 public:
  Child() = default;
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(Child&& other) noexcept : pid_(other.pid_), ended_(other.ended_), how_(std::move(other.how_)) { other.pid_ = -1; }
  Child& operator=(Child&& other) noexcept {
    std::swap(pid_, other.pid_);
    std::swap(ended_, other.ended_);
    std::swap(how_, other.how_);
    return *this;
  }
  // Kills and reaps what still runs.
  ~Child() { Kill(); }

  pid_t pid() const { return pid_; }
  // Looks, without waiting.
  bool Ended();
  // "ended with status 1", "was ended by signal 9 (Killed)". Requires: Ended().
  const std::string& how() const { return how_; }
  void Signal(int number);
  bool WaitForEnd(std::chrono::milliseconds patience);
  // SIGKILL to it and its process group, and waits.
  void Kill();

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  std::string how_;
};

// Starts a child with `inherited` as its descriptors 3, 4, … and nothing else of this process but standard error, in a process group of its
// own. `environment`: "NAME=value", besides what there is. Standard output goes where standard error does, or both to `output`.
// Errors: kMissing when no process can be had.
Result<Child> StartChild(const Program& program, const std::vector<int>& inherited, const std::vector<std::string>& environment = {},
                         int output = -1);

// Where mpirun starts ranks, and what.
struct MpirunPlaces {
  std::vector<HostShare> hosts = {};    // empty: this one, or those of the batch job that this process is part of
  std::string remote_program = {};      // its path there; empty: as here
  std::vector<std::string> variables = {};  // of the environment, that ranks shall have too
};

// mpirun with arguments for `ranks` of `program`. Errors: kMissing when there is no mpirun, saying what to install.
Result<Program> MpirunFor(const Program& program, int ranks, const MpirunPlaces& places = {});

}  // namespace skein::supervisor
