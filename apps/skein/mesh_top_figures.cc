// SPDX-License-Identifier: Apache-2.0
#include "mesh_top_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/json_writer.h"
#include "model/memory.h"

namespace skein::app {
namespace {

constexpr std::string_view kPrefix = "skein_rank_";
constexpr int kRanksMax = 4096;
constexpr std::size_t kLabelMax = 64;
constexpr int kBarColumns = 20;

// The value of a label, "" where it is missing or no plain word: what a terminal is shown must not command it.
std::string LabelOf(std::string_view labels, std::string_view name) {
  const std::string begin = fmt::format("{}=\"", name);
  std::size_t at = labels.find(begin);
  while (at != std::string_view::npos && at != 0 && labels[at - 1] != ',') at = labels.find(begin, at + 1);
  if (at == std::string_view::npos) return "";
  const std::string_view value = labels.substr(at + begin.size());
  const std::size_t end = value.find('"');
  if (end == std::string_view::npos) return "";
  const std::string_view word = value.substr(0, end);
  const bool plain = std::all_of(word.begin(), word.end(), [](char c) { return c > ' ' && c <= '~'; });
  return plain && word.size() <= kLabelMax ? std::string(word) : "";
}

std::optional<double> NumberOf(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

// Reads one line `skein_rank_NAME{labels} value` into the page.
bool ReadSeries(std::string_view line, TopPage& page) {
  const std::size_t open = line.find('{'), close = line.rfind('}');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open || close + 2 > line.size()) return false;
  const std::string_view name = line.substr(kPrefix.size(), open - kPrefix.size());
  const std::string_view labels = line.substr(open + 1, close - open - 1);
  const std::string number = LabelOf(labels, "rank");
  int rank = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rank);
  const std::optional<double> value = NumberOf(line.substr(close + 2));
  if (error != std::errc() || end != number.data() + number.size() || rank < 0 || rank >= kRanksMax || !value || name.size() > kLabelMax) return false;
  TopRank& one = page[rank];
  if (name == "info") {
    one.pipe = LabelOf(labels, "pipe");
    one.tensor = LabelOf(labels, "tensor");
    one.layers = LabelOf(labels, "layers");
    one.heads = LabelOf(labels, "heads");
  } else {
    one.values[std::string(name)] = *value;
  }
  return true;
}

// busy █, communication ▒, waiting ░.
std::string BarOf(const TopRow& row) {
  std::string bar;
  int drawn = 0;
  double until = 0;
  const auto draw = [&](double share, const char* mark) {
    until += std::max(share, 0.0);
    for (; drawn < std::min(static_cast<int>(until * kBarColumns + 0.5), kBarColumns); ++drawn) bar += mark;
  };
  draw(row.busy, "█");
  draw(row.communication, "▒");
  draw(row.waiting, "░");
  for (; drawn < kBarColumns; ++drawn) bar += "·";
  return bar;
}

}  // namespace

double TopRank::Value(std::string_view name) const {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

Result<TopPage> ReadTopPage(std::string_view text) {
  TopPage page;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(kPrefix) && !ReadSeries(line, page)) {
      return InvalidFile("a line of the server's metrics was expected to be a rank's series, it cannot be read; is it a skein of another version?");
    }
  }
  if (page.empty()) return Status(Code::kUnavailable, "the server's metrics were expected to have series of ranks, found none; is it a skein serve?");
  return page;
}

std::vector<TopRow> TopRows(const TopPage& before, const TopPage& now, double seconds) {
  std::vector<TopRow> rows;
  for (const auto& [number, rank] : now) {
    const auto earlier = before.find(number);
    const auto rate = [&](std::string_view name) {
      const double was = earlier == before.end() ? 0 : earlier->second.Value(name), is = rank.Value(name);
      return (is >= was ? is - was : is) / std::max(seconds, 1e-9);
    };
    rows.push_back({.rank = number,
                    .pipe = rank.pipe,
                    .tensor = rank.tensor,
                    .layers = rank.layers,
                    .heads = rank.heads,
                    .memory_bytes = rank.Value("memory_bytes"),
                    .busy = rate("busy_seconds_total"),
                    .communication = rate("communication_seconds_total"),
                    .waiting = rate("waiting_seconds_total"),
                    .steps_per_s = rate("steps_total"),
                    .sent_bytes_per_s = rate("sent_bytes_total"),
                    .restarts = rank.Value("restarts_total")});
  }
  return rows;
}

std::string TopText(const std::vector<TopRow>& rows) {
  std::string out = fmt::format("{:>4} {:>4} {:>6} {:>9} {:>7} {:>10} {:>6} {:>6} {:>6} {:>8} {:>9} {:>8}  busy █ communication ▒ waiting ░\n", "rank", "pipe",
                                "tensor", "layers", "heads", "memory", "busy", "comm", "wait", "steps/s", "sent/s", "restarts");
  for (const TopRow& row : rows) {
    out += fmt::format("{:>4} {:>4} {:>6} {:>9} {:>7} {:>10} {:>4.0f} % {:>4.0f} % {:>4.0f} % {:>8.1f} {:>6.1f} MB {:>8.0f}  {}\n", row.rank, row.pipe, row.tensor,
                       row.layers, row.heads, model::ShownBytes(static_cast<std::uint64_t>(std::clamp(row.memory_bytes, 0.0, 1e18))), 100 * row.busy,
                       100 * row.communication, 100 * row.waiting, row.steps_per_s, row.sent_bytes_per_s / 1e6, row.restarts, BarOf(row));
  }
  return out;
}

std::string TopJson(const std::vector<TopRow>& rows, double seconds) {
  JsonWriter json;
  json.BeginObject().Member("seconds", seconds).Key("ranks").BeginArray();
  for (const TopRow& row : rows) {
    json.BeginObject().Member("rank", row.rank).Member("pipe", row.pipe).Member("tensor", row.tensor).Member("layers", row.layers);
    json.Member("heads", row.heads).Member("memory_bytes", row.memory_bytes).Member("busy", row.busy).Member("communication", row.communication);
    json.Member("waiting", row.waiting).Member("steps_per_s", row.steps_per_s).Member("sent_bytes_per_s", row.sent_bytes_per_s);
    json.Member("restarts", row.restarts).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

}  // namespace skein::app
