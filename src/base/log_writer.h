// SPDX-License-Identifier: Apache-2.0
//
// LogWriter takes lines and writes them to a descriptor on a thread of its own, so that a log that nobody reads (a full
// pipe, a stopped terminal) holds up nobody. Lines wait in a bounded queue; what finds no room there, or cannot be
// written (a full disk), is counted, and the log says so once it goes on.
//
// Thread rule: Push and lost by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace skein {

class LogWriter {
 public:
  explicit LogWriter(int descriptor, std::size_t bytes_max = std::size_t{1} << 20);
  // Writes what waits, for a second at most; what a reader does not take by then is lost.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void Push(std::string line);
  // Lines that nobody will read, since the start.
  std::uint64_t lost() const;

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;  // also the thread's, which may outlive this when the descriptor takes nothing
};

}  // namespace skein
