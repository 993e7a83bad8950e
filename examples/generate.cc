// SPDX-License-Identifier: Apache-2.0
//
// The shortest useful program: loads a model and continues a text, writing pieces as they come.
//
//     example_generate MODEL "Once upon a time"
#include <cstdio>
#include <string>

#include "skein/skein.h"

int main(int count, char** values) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s MODEL TEXT\n", values[0]);
    return 2;
  }
  skein::EngineOptions engine_options;
  engine_options.context = 512;
  skein::Result<skein::Engine> engine = skein::Engine::Load(values[1], engine_options);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().message().c_str());
    return 1;
  }
  skein::GenerateOptions options;
  options.max_tokens = 32;
  options.sampling.temperature = 0;
  const skein::Result<skein::Answer> answer = engine->Complete(values[2], options, [](const skein::Piece& piece) {
    std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
    std::fflush(stdout);
    return skein::Next::kContinue;
  });
  if (!answer.ok()) {
    std::fprintf(stderr, "%s\n", answer.status().message().c_str());
    return 1;
  }
  std::printf("\n%zu tokens, %.1f tokens/s, ended by %s\n", answer->tokens.size(), answer->timing.decode_tokens_per_s,
              std::string(skein::NameOf(answer->finish_reason)).c_str());
  return 0;
}
