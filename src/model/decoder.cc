// SPDX-License-Identifier: Apache-2.0
#include "model/decoder.h"

#include "model/arch/architecture.h"

namespace skein::model {

Result<std::unique_ptr<Decoder>> Decoder::Create(const Model& model, KvStore& kv, kernels::ThreadPool& pool,
                                                 Limits limits, RankLinks links, PhaseClock* phases) {
  return model.architecture().make_decoder(model, kv, pool, limits, links, phases);
}

}  // namespace skein::model
