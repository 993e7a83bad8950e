// SPDX-License-Identifier: Apache-2.0
//
// What `skein bench ranks` makes of its measurements: efficiency, its bound, where the rest went, and the forms in which people and programs read
// it. Pure functions.
//
// Efficiency η = T₁ / (N · T_N): T₁ is the time of one rank with a rank's threads, T_N that of the mesh of N ranks, for the same tokens. The N · T_N
// of all ranks together divides without a rest:
//   useful         T₁
//   more work      what ranks computed beyond what one rank computed, in times: heads of keys that two ranks have, norms that all do, slower
//                  kernels on narrower matrices, memory that both read at once
//   communication  talked to ranks that were there
//   imbalance      waited because one rank had more to compute
//   waiting        waited besides: ranks that were late this time, stages of a pipe with nothing to do
//   between        outside of steps
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench_model_measure.h"
#include "engine/rank_load.h"
#include "formats/model_config.h"
#include "skein/engine.h"

namespace skein::app {

// One measurement of one way to run.
struct RankRun {
  double tokens_per_s = 0;
  double seconds = 0;                   // of the whole run, in which loads were made
  std::vector<engine::RankLoad> loads = {};  // by rank
};

struct RankRound {
  RankRun one, together, mesh;  // one rank; one process with all threads; the mesh
};

struct RankMeasurement {
  ModelTest test;
  std::vector<RankRound> rounds;
};

struct RankParts {
  double useful = 0, more_work = 0, communication = 0, imbalance = 0, waiting = 0, between = 0;  // of N · T_N; their sum is 1
};

struct RankFigures {
  double efficiency = 0;   // median over rounds, as the ones below
  double of_together = 0;  // tokens a second of the mesh, in those of one process with as many threads
  double bound = 0;        // of efficiency, by uneven shares; BalanceBound
  RankParts parts;         // of the round in the middle
  double bubble = 0;          // of a pipe: how much of all stages' time nobody computed
  double bubble_formula = 0;  // (p − 1) / (m + p − 1) for m plans that may follow each other; 0: no pipe
  double bubble_uneven = 0;   // what the formula comes to with stages of which one computes longer than the others, as they did
  double bytes_per_token = 0;  // that all ranks sent
};

RankParts PartsOf(const RankRound& round);
RankFigures FiguresOf(const RankMeasurement& measurement, std::span<const engine::RankStats> ranks, const formats::ModelConfig& config);

// How efficient ranks could be with these shares if nothing but multiplying took time: a tensor mesh waits for the rank with the most heads in each
// attention branch, for the widest slice in each feed-forward branch and for the largest vocabulary in the head; a pipe goes as fast as its slowest stage.
// `context`: keys that a token looks at; `outputs`: of how many tokens in one the head is wanted.
double BalanceBound(const formats::ModelConfig& config, std::span<const engine::RankStats> ranks, double context, double outputs);

// What a pipe of `stages` leaves idle: filled and drained once with `plans` that wait for none but the one before, or with fewer sequences than
// stages, each of which waits for its own token.
double BubbleFormula(const ModelTest& test, int stages, double plans);
// The formula is of stages that take the same time. Where they do not, a full pipe goes as fast as the slowest of them; `run`: how long each computed.
double BubbleOfUneven(const ModelTest& test, int stages, double formula, const RankRun& run);

struct RankReport {
  ModelInfo info;                        // of the mesh
  std::vector<engine::RankStats> ranks;  // their shares
  formats::ModelConfig config;
  std::vector<RankMeasurement> measurements;
  int rank_threads = 1;
};
std::string RankJson(const RankReport& report, std::string_view build_commit);
std::string RankText(const RankReport& report);

}  // namespace skein::app
