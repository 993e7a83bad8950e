// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

#include <fmt/format.h>

#include <iterator>

namespace skein::app {
namespace {

using model::Phase;
using model::PhaseClock;

std::string SpanName(const PhaseClock::Span& span) {
  return span.layer < 0 ? std::string(NameOf(span.phase)) : fmt::format("{} {}", NameOf(span.phase), span.layer);
}

void AddTotals(std::string_view title, const PhaseClock::Totals& totals, std::string& out) {
  if (totals.steps == 0) return;
  const auto steps = static_cast<double>(totals.steps);
  out += fmt::format("{}: {} steps of {:.1f} tokens, {:.3f} ms each\n", title, totals.steps, static_cast<double>(totals.tokens) / steps,
                     static_cast<double>(totals.step_ns) * 1e-6 / steps);
  for (int i = 0; i < model::kPhases; ++i) {
    const std::int64_t ns = totals.phase_ns[static_cast<std::size_t>(i)];
    if (ns == 0) continue;
    out += fmt::format("  {:12} {:9.3f} ms {:6.2f} %\n", NameOf(static_cast<Phase>(i)), static_cast<double>(ns) * 1e-6 / steps,
                       100 * static_cast<double>(ns) / static_cast<double>(totals.step_ns));
  }
  out += fmt::format("  {:12} {:9.3f} ms {:6.2f} %\n", "in no phase", totals.Unmarked() * static_cast<double>(totals.step_ns) * 1e-6 / steps,
                     100 * totals.Unmarked());
}

}  // namespace

std::string PhaseEvents(const PhaseClock::Profile& profile, int row) {
  std::string out;
  if (profile.spans.empty()) return out;
  out.reserve(profile.spans.size() * 96);
  const auto into = std::back_inserter(out);
  fmt::format_to(into, "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{},\"args\":{{\"name\":\"worker 0\"}}}}", row);
  for (const PhaseClock::Span& span : profile.spans) {
    fmt::format_to(into, ",\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}", SpanName(span),
                   NameOf(span.phase), row, static_cast<double>(span.begin_ns) * 1e-3, static_cast<double>(span.length_ns) * 1e-3);
  }
  return out;
}

std::string PhaseTable(const PhaseClock::Profile& profile) {
  std::string out;
  AddTotals("prompts", profile.prompts, out);
  AddTotals("answers", profile.answers, out);
  if (profile.steps_left_out > 0) out += fmt::format("the last {} steps are in this table, but not in the trace\n", profile.steps_left_out);
  return out;
}

Status WritePhases(const PhaseClock::Profile& profile, OutputFile& file, const Context& context) {
  SKEIN_RETURN_IF_ERROR(file.Write("{\"traceEvents\":[" + PhaseEvents(profile, /*row=*/1) + "]}\n"));
  std::string table = PhaseTable(profile);
  if (!table.empty()) table.pop_back();  // Tell ends the line
  context.Tell(table.empty() ? "skein: steps ran in other processes, so their phases are not known" : table);
  return file.Commit();
}

}  // namespace skein::app
