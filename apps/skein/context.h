// SPDX-License-Identifier: Apache-2.0
//
// Context is the program's surroundings, handed to every command: standard output with its errors checked, standard
// error for logs and progress, and what the output options chose.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "common_options.h"

namespace skein::app {

// Standard output. Buffered; a failure is kept and comes out of Flush (and of Write, once it is known).
class Output {
 public:
  Status Write(std::string_view text);
  Status Flush();
  // Whether anything was written: a result stands there, so no error object follows it.
  bool used() const { return used_; }

 private:
  bool used_ = false;
  std::string buffer_;
  Status failed_;
};

class Context {
 public:
  Context();
  // Called once the options are known.
  void Prepare(const OutputOptions& options);

  Output& out() { return out_; }
  const Logger& log() const { return log_; }
  // The log is written by a thread of its own from now on.
  void WriteLogBehind() { log_.WriteBehind(); }
  bool json() const { return json_; }
  bool quiet() const { return quiet_; }
  // Whether progress bars may be drawn on standard error.
  bool shows_progress() const { return !quiet_ && error_is_terminal_; }
  // Whether colours may be used on standard output: a terminal, and NO_COLOR is not set.
  bool colours() const { return colours_; }
  // Width of the terminal.
  int columns() const;
  // Writes a line for people to standard error, unless --quiet.
  void Tell(std::string_view line) const;

 private:
  Output out_;
  Logger log_;
  bool json_ = false;
  bool quiet_ = false;
  bool error_is_terminal_ = false;
  bool colours_ = false;
};

// The next bytes of standard input into `block`, as many as are there; 0 at the end.
Result<std::size_t> ReadSomeStandardInput(std::span<char> block);

// Standard input, all of it. Errors: kLimit beyond `limit` bytes.
Result<std::string> ReadStandardInput(std::uint64_t limit);

// A file of text (a prompt, a list of ids), `-` for standard input. Errors: kInvalidArgument naming `flag`.
Result<std::string> ReadTextFile(const std::string& path, std::string_view flag, std::uint64_t limit);

}  // namespace skein::app
