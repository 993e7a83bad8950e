// SPDX-License-Identifier: Apache-2.0
//
// LoadedModel is everything that stands behind an answer: the model's file, tokenizer and template, its weights, and
// the engine that runs it. The public Engine is a thin layer over it; commands that measure speak to its client.
//
// Thread rule: made by one thread; afterwards only the client changes, which any thread may call.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/local_rank.h"
#include "api/machine.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "engine/engine.h"
#include "formats/model_file.h"
#include "skein/engine.h"
#include "supervisor/supervisor.h"
#include "text/tokenizer.h"

namespace skein::api {

class LoadedModel {
 public:
  // Errors as Engine::Load has them.
  static Result<std::unique_ptr<LoadedModel>> Load(const std::string& path, const Machine& machine,
                                                   const LoadProgress& progress);
  ~LoadedModel();

  engine::EngineClient& client() const { return *client_; }
  const formats::ModelFile& file() const { return *file_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelInfo& info() const { return info_; }
  const Machine& machine() const { return machine_; }
  const engine::ExecutorLimits& limits() const { return limits_; }
  RequestId NextRequest() { return {request_count_.fetch_add(1) + 1}; }

 private:
  LoadedModel() = default;
  Status LoadWeights(const LoadProgress& progress);
  Status StartProcesses(const LoadProgress& progress);
  Status RunEngine(std::unique_ptr<engine::Executor> executor, std::function<std::vector<engine::RankStats>()> ranks = {});
  Status Simulate();
  Status ChooseContext();
  Status ChooseKv(std::uint64_t context);

  Machine machine_;
  std::unique_ptr<formats::ModelFile> file_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  ModelInfo info_;
  SteadyClock clock_;
  std::atomic<std::uint64_t> request_count_{0};
  std::unique_ptr<ThreadMesh> mesh_;
  std::uint64_t kv_tokens_ = 0;
  engine::ExecutorLimits limits_;
  // Last: their threads use what is above. One of them is there.
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<supervisor::Supervisor> supervisor_;
  engine::EngineClient* client_ = nullptr;
};

}  // namespace skein::api
