// SPDX-License-Identifier: Apache-2.0
//
// What --profile tells of a step's phases (model/phase_clock.h): rows of a Chrome trace, and a table for people.
#pragma once

#include <string>

#include "base/output_file.h"
#include "base/status.h"
#include "context.h"
#include "model/phase_clock.h"

namespace skein::app {

// Members of "traceEvents" for a Chrome trace, separated by commas; empty without spans. Times are those of the steady clock in
// microseconds. All stand in row `row`, which is named after worker 0.
std::string PhaseEvents(const model::PhaseClock::Profile& profile, int row);

// How many milliseconds a step took and how much of it each phase, for steps with a part of a prompt and for others; lines end in
// newlines. Empty where there were no steps: then another process ran them.
std::string PhaseTable(const model::PhaseClock::Profile& profile);

// A trace of phases alone, and the table to standard error.
Status WritePhases(const model::PhaseClock::Profile& profile, OutputFile& file, const Context& context);

}  // namespace skein::app
