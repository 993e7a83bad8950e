// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/json_writer.h"
#include "base/output_file.h"

namespace skein::app {
namespace {

// On one line, whatever names and texts it quotes.
std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

int ExitCodeOf(Code code) {
  switch (code) {
    case Code::kOk: return 0;
    case Code::kInvalidArgument: return 2;
    case Code::kMissing: return 3;
    case Code::kInvalidFile: return 4;
    case Code::kUnavailable: return 5;
    case Code::kLimit: return 6;
    case Code::kCancelled: return 130;
    case Code::kInternal: return 1;
  }
  return 1;
}

int Report(const Status& status, bool json, Context& context) {
  const Status flushed = context.out().Flush();
  const Status& shown = status.ok() || flushed.code() == Code::kCancelled ? flushed : status;
  if (shown.ok()) return 0;
  if (flushed.code() == Code::kCancelled) return 0;  // a reader that left early, such as head
  const std::string line = fmt::format("skein: {}\n", OneLine(shown.message()));
  static_cast<void>(WriteAll(STDERR_FILENO, std::as_bytes(std::span(line.data(), line.size())), "standard error").ok());
  if (json && flushed.ok() && !context.out().used()) {
    JsonWriter object;
    object.BeginObject().Key("error").BeginObject();
    object.Member("code", CodeName(shown.code())).Member("message", shown.message()).Member("field", shown.field());
    object.EndObject().EndObject();
    if (!context.out().Write(object.Take() + "\n").ok() || !context.out().Flush().ok()) return ExitCodeOf(shown.code());
  }
  return ExitCodeOf(shown.code());
}

}  // namespace skein::app
