// SPDX-License-Identifier: Apache-2.0
//
// Loading a model as a command does it: a progress bar, notes about what was chosen, and the closing line of figures.
#pragma once

#include <memory>
#include <string>

#include "api/loaded_model.h"
#include "api/machine.h"
#include "base/status.h"
#include "context.h"
#include "skein/engine.h"

namespace skein::app {

// `model` is MODEL of the command line.
Result<Engine> LoadEngine(const std::string& model, const EngineOptions& options, Context& context);
// The same for commands that speak to the engine's client.
Result<std::unique_ptr<api::LoadedModel>> LoadForMeasuring(const std::string& model, const api::Machine& machine,
                                                           Context& context);

// Says what numbers ranks of different hosts send.
void NoteWire(const ModelInfo& info, const Context& context);

// Tokens a second, time to the first token, kernels: a line on standard error unless --quiet.
void TellSummary(const ModelInfo& info, const Answer& answer, const Context& context);

}  // namespace skein::app
