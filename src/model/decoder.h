// SPDX-License-Identifier: Apache-2.0
//
// Decoder runs a batch of tokens through a model: embedding, layers, head for the positions that are wanted. It is
// architecture.md's stop 10. All workers of the pool run the same function side by side, phase by phase, with one barrier
// after each phase.
//
// Thread rule: Forward is called by one thread (worker 0 of the pool). Scratch for the largest batch is taken when the
// decoder is made; Forward allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/ids.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "kernels/threads/thread_pool.h"
#include "model/kv_store.h"
#include "model/model.h"
#include "model/phase_clock.h"

namespace skein::model {

// Consecutive tokens of one sequence in a batch.
struct BatchRow {
  std::int32_t first_token = 0;     // index into Batch::tokens
  std::int32_t count = 0;
  std::int32_t first_position = 0;
  std::span<const BlockId> blocks;  // the sequence's block table, one entry for 16 positions
};

struct Batch {
  std::span<const TokenId> tokens;
  std::span<const BatchRow> rows;
  std::span<const std::int32_t> outputs;  // indices into tokens whose logits are wanted, ascending
  std::span<const std::int32_t> hidden = {};  // and whose hidden state behind the last norm
};

// Whom a rank computes with; null: the axis has one rank.
struct RankLinks {
  comm::Communicator* tensor = nullptr;
  comm::Communicator* pipe = nullptr;
  // In steps with many tokens sums over the ranks of `tensor` are formed beside computing (no bit depends on it; the same on all of them).
  bool overlap = false;
};

class Decoder {
 public:
  struct Limits {
    int tokens = 512;   // in one batch
    int outputs = 64;   // of logits and of hidden states in one batch, each
  };
  // Errors: kLimit when memory for scratch cannot be had.
  // `links` belong to the model's share: all ranks of a mesh call Forward with the same batches in the same order. `phases`, where there is one, is
  // marked in steps that its owner has begun, and outlives the decoder.
  static Result<std::unique_ptr<Decoder>> Create(const Model& model, KvStore& kv, kernels::ThreadPool& pool, Limits limits,
                                                 RankLinks links = {}, PhaseClock* phases = nullptr);
  virtual ~Decoder() = default;

  // Fills the KV places of all tokens and computes logits. Returns fp32 [outputs, vocabulary of the share], valid until the next call;
  // nothing on ranks without the head. Errors: kUnavailable, naming the rank that was lost; the decoder is of no use afterwards.
  virtual Result<std::span<const float>> Forward(const Batch& batch) = 0;
  // Of the last Forward: time in which worker 0 talked to other ranks, or waited for them.
  virtual std::uint64_t communication_ns() const = 0;
  // The hidden state of batch.hidden[index] of the last Forward: fp32 [hidden size], valid until the next. Requires: a rank with
  // the head.
  virtual std::span<const float> Hidden(int index) const = 0;
};

}  // namespace skein::model
