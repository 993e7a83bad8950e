// SPDX-License-Identifier: Apache-2.0
//
// RunOnPool runs work on a request's text on the text pool and gives its result back on the I/O thread. The exchange,
// and with it the request, is kept alive meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>

#include "server/http/exchange.h"
#include "server/openai/api_error.h"
#include "server/openai/serving.h"

namespace skein::server {

// `work` runs on the pool (by value of Answer: an ApiResult), `done` on the I/O thread unless the work was abandoned.
// Errors: kUnavailable when the pool has no room.
template <typename Answer>
Status RunOnPool(Serving& serving, std::shared_ptr<Exchange> exchange, std::stop_token abandoned,
                 std::function<Answer(const HttpRequest&)> work, std::function<void(Answer)> done) {
  struct Piece {
    std::shared_ptr<Exchange> exchange;
    std::function<void(Answer)> done;
    std::optional<Answer> answer;
  };
  const HttpRequest& request = exchange->request();
  auto piece = std::make_shared<Piece>(Piece{std::move(exchange), std::move(done), std::nullopt});
  return serving.pool.Submit(
      [&serving, &request, piece = std::move(piece), work = std::move(work)] {
        try {
          piece->answer.emplace(work(request));
        } catch (const std::bad_alloc&) {  // of a library; ours has limits
          piece->answer.emplace(ApiError{.status = 503, .message = "memory for this request is used up; try again later",
                                         .param = {}, .code = {}});
        }
        serving.io.post([piece] { piece->done(std::move(*piece->answer)); });
      },
      std::move(abandoned));
}

}  // namespace skein::server
