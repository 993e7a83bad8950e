// SPDX-License-Identifier: Apache-2.0
#include "server/openai/embedding.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include "base/json_writer.h"
#include "server/openai/answering.h"
#include "server/openai/pool_work.h"

namespace skein::server {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 embeddings are little-endian floats");

// RFC 4648, with padding.
std::string Base64(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) word = word << 8 | (k < count ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[word >> (18 - 6 * k) & 63u] : '=';
  }
  return text;
}

void ScaleToLengthOne(std::vector<float>& vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * static_cast<double>(x);
  if (!(squares > 0)) return;
  const double inverse = 1.0 / std::sqrt(squares);
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) * inverse);
}

}  // namespace

std::string EmbeddingBody(const EmbeddingRequest& request, std::vector<std::vector<float>> vectors) {
  JsonWriter json;
  json.BeginObject().Member("object", "list").Key("data").BeginArray();
  for (std::size_t index = 0; index < vectors.size(); ++index) {
    std::vector<float>& vector = vectors[index];
    ScaleToLengthOne(vector);
    json.BeginObject().Member("object", "embedding").Member("index", static_cast<std::int64_t>(index)).Key("embedding");
    if (request.base64) {
      json.Text(Base64({reinterpret_cast<const unsigned char*>(vector.data()), vector.size() * sizeof(float)}));
    } else {
      json.BeginArray();
      for (const float x : vector) json.Value(x);
      json.EndArray();
    }
    json.EndObject();
  }
  std::int64_t tokens = 0;
  for (const std::vector<TokenId>& input : request.inputs) tokens += static_cast<std::int64_t>(input.size());
  json.EndArray().Member("model", request.model).Key("usage").BeginObject();
  json.Member("prompt_tokens", tokens).Member("total_tokens", tokens).EndObject().EndObject();
  return json.Take();
}

void Embedding::Begin(Serving& serving, std::shared_ptr<Exchange> exchange) {
  const std::shared_ptr<Embedding> self(new Embedding(serving, std::move(exchange)));
  serving.embeddings.emplace(&self->exchange_->request(), self);
  ApiResult<Admission::Place> place = EnterServer(serving);
  if (!place.ok()) return self->Refuse(place.error());
  self->place_ = std::move(place).value();
  const std::weak_ptr<Embedding> weak = self;
  self->exchange_->OnGone([weak] {
    const auto alive = weak.lock();
    if (!alive || alive->ended()) return;
    alive->serving_.metrics.OnClientGone();
    alive->End();
  });
  const Status begun = RunOnPool<ApiResult<EmbeddingRequest>>(
      serving, self->exchange_, self->abandoned_.get_token(),
      [&card = serving.card](const HttpRequest& request) { return ParseEmbedding(request, card); },
      [weak](ApiResult<EmbeddingRequest> request) {
        const auto alive = weak.lock();
        if (alive && !alive->ended()) alive->OnRead(std::move(request));
      });
  if (!begun.ok()) self->Refuse(NotTakenError(begun, serving));
}

void Embedding::OnRead(ApiResult<EmbeddingRequest> request) {
  if (!request.ok()) return Refuse(request.error());
  request_ = std::move(request).value();
  exchange_->ReleaseBody();
  serving_.admission.Await(*place_, [weak = weak_from_this()] {
    if (const auto alive = weak.lock()) alive->Start();
  });
}

void Embedding::Start() {
  if (const Status submitted = SubmitAll(); !submitted.ok()) Refuse(NotTakenError(submitted, serving_));
}

Status Embedding::SubmitAll() {
  inputs_.resize(request_->inputs.size());
  for (std::size_t index = 0; index < inputs_.size(); ++index) {
    Input& input = inputs_[index];
    input.request = serving_.NextRequest();
    engine::RequestSpec spec;
    spec.request = input.request;
    spec.tokens = request_->inputs[index];
    spec.prompt_tokens = static_cast<std::int32_t>(spec.tokens.size());
    spec.prompt_output = engine::PromptOutput::kPooled;
    spec.tenant = exchange_->request().tenant;
    const auto sink = std::make_shared<ChoiceSink>(serving_.mailbox, *this, index);
    SKEIN_RETURN_IF_ERROR(serving_.engine.Submit(std::move(spec), sink));
    input.sink = sink;
    ++unfinished_;
  }
  return OkStatus();
}

void Embedding::OnEvent(std::size_t index, engine::SinkEvent event) {
  const std::shared_ptr<Embedding> self = shared_from_this();  // it may end in here
  Input& input = inputs_[index];
  if (auto* prompt = std::get_if<engine::PromptEvent>(&event)) {
    input.vector = std::move(prompt->hidden);
    return;
  }
  const auto* end = std::get_if<engine::FinishedEvent>(&event);
  if (end == nullptr) return;
  if (const std::optional<ApiError> failure = FailureOf(*end)) return Refuse(*failure);
  input.finished = true;
  --unfinished_;
}

void Embedding::OnBatchEnd() {
  if (ended() || unfinished_ > 0) return;
  const std::shared_ptr<Embedding> self = shared_from_this();
  const std::shared_ptr<Exchange> exchange = exchange_;
  std::vector<std::vector<float>> vectors;
  vectors.reserve(inputs_.size());
  for (Input& input : inputs_) vectors.push_back(std::move(input.vector));
  std::string body = EmbeddingBody(*request_, std::move(vectors));
  End();
  AnswerJson(*exchange, std::move(body));
}

void Embedding::Refuse(const ApiError& error) {
  const std::shared_ptr<Embedding> self = shared_from_this();
  const std::shared_ptr<Exchange> exchange = exchange_;
  HttpResponse response = ResponseOf(error, serving_);
  End();
  Answer(*exchange, std::move(response));
}

void Embedding::End() {
  const std::shared_ptr<Embedding> self = shared_from_this();
  abandoned_.request_stop();
  for (const Input& input : inputs_) {
    if (input.sink == nullptr) continue;
    input.sink->Detach();
    if (!input.finished) serving_.engine.Cancel(input.request);
  }
  const HttpRequest* key = &exchange_->request();
  exchange_ = nullptr;
  serving_.embeddings.erase(key);
  place_.reset();
  if (serving_.on_generation_end) serving_.on_generation_end();
}

}  // namespace skein::server
