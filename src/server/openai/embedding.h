// SPDX-License-Identifier: Apache-2.0
//
// Embedding is one request for embeddings from its arrival to its end: like Generation it takes a place, has the body
// read on the text pool and waits until it may run; then every input is computed as a prompt of its own, and the
// model's final hidden state at the last token, scaled to length 1, is its vector (vLLM's default for causal models).
//
// Owned by the I/O thread; kept alive by Serving::embeddings until it ends.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "server/http/exchange.h"
#include "server/openai/admission.h"
#include "server/openai/api_error.h"
#include "server/openai/embedding_request.h"
#include "server/openai/mailbox.h"
#include "server/openai/serving.h"

namespace skein::server {

class Embedding final : public ChoiceOwner, public std::enable_shared_from_this<Embedding> {
 public:
  static void Begin(Serving& serving, std::shared_ptr<Exchange> exchange);

  void OnEvent(std::size_t input, engine::SinkEvent event) override;
  void OnBatchEnd() override;

 private:
  struct Input {
    RequestId request;
    std::shared_ptr<ChoiceSink> sink;
    std::vector<float> vector;
    bool finished = false;
  };

  Embedding(Serving& serving, std::shared_ptr<Exchange> exchange) : serving_(serving), exchange_(std::move(exchange)) {}
  void OnRead(ApiResult<EmbeddingRequest> request);
  void Start();
  Status SubmitAll();
  void Refuse(const ApiError& error);
  void End();
  bool ended() const { return exchange_ == nullptr; }

  Serving& serving_;
  std::shared_ptr<Exchange> exchange_;  // nullptr once ended
  std::stop_source abandoned_;          // of the work on the text pool
  std::optional<Admission::Place> place_;
  std::optional<EmbeddingRequest> request_;
  std::vector<Input> inputs_;
  std::size_t unfinished_ = 0;
};

// The body of the answer. `vectors` are the model's, of any length; zeros stay zeros.
std::string EmbeddingBody(const EmbeddingRequest& request, std::vector<std::vector<float>> vectors);

}  // namespace skein::server
