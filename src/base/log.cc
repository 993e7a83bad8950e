// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "base/json_writer.h"
#include "base/log_writer.h"
#include "base/output_file.h"

namespace skein {

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "info";
}

std::optional<LogLevel> LogLevelFromName(std::string_view name) {
  for (const LogLevel level : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
    if (NameOf(level) == name) return level;
  }
  return std::nullopt;
}

namespace {

// On one line whatever it holds: a client's words must not look like a line of ours.
std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      line += c;
    }
  }
  return line;
}

std::string ValueText(const LogField& field) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) return OneLine(*text);
  if (const auto* number = std::get_if<double>(&field.value)) return fmt::format("{:.4g}", *number);
  return fmt::format("{}", std::get<std::int64_t>(field.value));
}

}  // namespace

void Logger::WriteBehind() { behind_ = std::make_shared<LogWriter>(descriptor_); }

std::uint64_t Logger::lines_lost() const { return behind_ == nullptr ? 0 : behind_->lost(); }

void Logger::Write(LogLevel level, std::string_view text, std::span<const LogField> fields) const {
  if (!Wants(level)) return;
  std::string line;
  if (json_) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    JsonWriter json;
    json.BeginObject()
        .Member("time_ms", std::int64_t{std::chrono::duration_cast<std::chrono::milliseconds>(now).count()})
        .Member("level", NameOf(level))
        .Member("message", text);
    for (const LogField& field : fields) {
      std::visit([&](const auto& value) { json.Member(field.name, value); }, field.value);
    }
    json.EndObject();
    line = json.Take();
  } else {
    line = fmt::format("skein: {}{}", level == LogLevel::kWarning ? "note: " : "", text);
    for (const LogField& field : fields) line += fmt::format(" {}={}", field.name, ValueText(field));
  }
  WriteLine(std::move(line));
}

void Logger::WriteLine(std::string line) const {
  line += '\n';
  if (behind_ != nullptr) return behind_->Push(std::move(line));
  // Nobody is left to be told when the log itself cannot be written.
  static_cast<void>(WriteAll(descriptor_, std::as_bytes(std::span(line.data(), line.size())), "the log").ok());
}

}  // namespace skein
