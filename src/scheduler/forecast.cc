// SPDX-License-Identifier: Apache-2.0
//
// Every stride ends a prompt or an answer, so there are at most two for each sequence, and each looks at all of them.
#include "scheduler/forecast.h"

#include <algorithm>

#include "scheduler/step_budget.h"

namespace skein::scheduler {
namespace {

class Player {
 public:
  Player(std::vector<ForecastSequence*>& sequences, const ForecastLimits& limits, const StepCost& cost, std::int64_t now_ns)
      : left_(sequences), limits_(limits), cost_(cost), now_ns_(static_cast<double>(now_ns)), places_(limits.places) {
    for (const ForecastSequence* each : left_) {
      if (!each->runs) continue;
      ++running_;
      places_ -= SizeOf(*each);
    }
  }

  void Play() {
    while (!left_.empty()) {
      Admit();
      Stride();
      std::erase_if(left_, [&](ForecastSequence* each) {
        if (each->prompt_left > 0 || each->outputs_left > 0) return false;
        each->end_ns = static_cast<std::int64_t>(now_ns_);
        if (each->runs) --running_;
        places_ += SizeOf(*each);
        return true;
      });
    }
  }

 private:
  // With its whole answer: what it takes of the memory in the end.
  static std::int64_t SizeOf(const ForecastSequence& each) { return each.position + each.prompt_left + each.outputs_left; }

  void Admit() {
    for (ForecastSequence* each : left_) {
      if (each->runs) continue;
      if (running_ > 0 && (running_ >= limits_.sequences || places_ < SizeOf(*each))) return;
      each->runs = true;
      ++running_;
      places_ -= SizeOf(*each);
    }
  }

  // As many equal steps as there are until a prompt or an answer ends.
  void Stride() {
    StepShape answers;
    std::int64_t steps = 0;
    ForecastSequence* prompt = nullptr;
    for (ForecastSequence* each : left_) {
      if (!each->runs) continue;
      if (each->prompt_left > 0) {
        if (prompt == nullptr) prompt = each;
        continue;
      }
      if (each->outputs_left == 0) continue;
      answers = WithChunk(answers, each->position, 1);
      answers.outputs += 1;
      steps = steps == 0 ? each->outputs_left : std::min(steps, each->outputs_left);
    }
    std::int64_t budget = 0;
    StepShape shape = answers;
    if (prompt != nullptr) {
      const std::int64_t room = std::max<std::int64_t>(limits_.step_tokens - answers.tokens, 1);
      budget = PromptBudget(cost_, answers, prompt->position, room, limits_.step_target_ns);
      const std::int64_t whole = std::max<std::int64_t>(prompt->prompt_left / budget, 1);
      steps = steps == 0 ? whole : std::min(steps, whole);
    }
    // The middle of the stride stands for all of it.
    shape.keys += shape.rows * (steps / 2);
    shape.pairs += shape.rows * (steps / 2);
    for (ForecastSequence* each : left_) {
      if (!each->runs) continue;
      if (each->prompt_left == 0) {
        if (each->outputs_left == 0) continue;
        each->outputs_left -= steps;
        each->position += steps;
      } else if (budget > 0) {
        const std::int64_t chunk = std::min(budget, each->prompt_left);
        const std::int64_t taken = std::min(each->prompt_left, steps * chunk);
        shape = WithChunk(shape, each->position + (taken - chunk) / 2, chunk);
        each->prompt_left -= taken;
        each->position += taken;
        budget -= chunk;
        if (each->prompt_left == 0 && each->outputs_left > 0) {  // its last chunk gives the first token
          shape.outputs += 1;
          each->outputs_left -= 1;
        }
      }
    }
    now_ns_ += static_cast<double>(steps) * cost_.Predict(shape);
  }

  std::vector<ForecastSequence*>& left_;
  const ForecastLimits& limits_;
  const StepCost& cost_;
  double now_ns_;
  std::int64_t places_;
  std::int64_t running_ = 0;
};

}  // namespace

void Forecast(std::vector<ForecastSequence*>& sequences, const ForecastLimits& limits, const StepCost& cost,
              std::int64_t now_ns) {
  Player(sequences, limits, cost, now_ns).Play();
}

}  // namespace skein::scheduler
