#!/usr/bin/env python3
"""Every member of the classes that a training step changes, and how a checkpoint treats it. Check each new member: what the next
step reads from it must be saved (docs/checkpoints.md), and MissesNothingThatTheNextStepReads of
tests/train/trainer/checkpoint_test.cpp must fail without it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAVED, STEP, START, REPORTED = "saved", "made anew in each step", "constant from the start", "reported, and read by no step"

# By file and class: members by treatment.
MEMBERS = {
    ("weft/engine/step_run.h", "StepRun"): {
        SAVED: "nominal_targets_ weights updater_",  # weights and the updater's tensors are the state itself
        STEP: "transfers forward_transfers values_ step_ list_ updated_until_ loaded_ first_batch_ in_flight_ works_ stashes_ accumulated_ uses_joined_ losses_ squares_ loss_group_ loss_gradient_ numbers_ refusal_ loss_settled_ result_ divisor_",
        START: "model_ program_ options_ stage_ranks_ optimizer_buffers_ calls",
        REPORTED: "clock results checks",  # saves and loads wait for all steps first: the host has the device's loss scale then
    },
    ("weft/train/trainer/step_updater.h", "StepUpdater"): {
        SAVED: "optimizer_ loss_scale_ average_since_",  # the average itself is among the optimizer's state
        STEP: "step_ number_ update_number_ lr_ factor_ norm_ gated_average_",
        START: "model_ num_tensor_squares_ squares_gradients_ takes_gate_ clip_ scaled_ average_ float32_rates_ before_change_",
    },
    ("weft/nn/device_kernels/loss_scale.h", "LossScale"): {SAVED: "scale good_steps skipped_steps"},
    ("weft/optim/update_ranges.h", "UpdateRanges"): {SAVED: "states_ ages_", START: "model_ options_ range_ count_ settings_ has_settings_"},
    ("weft/optim/element_wise_optimizer.h", "ElementWiseOptimizer"): {SAVED: "ranges_", START: "options_"},
    ("weft/optim/layer_wise.cpp", "LayerWise"): {STEP: "ratios_ gated_ratios_", START: "decays_"},
    ("weft/optim/muon.cpp", "MuonOptimizer"): {STEP: "gathered_", START: "second_begin_ second_numel_"},
    ("weft/optim/adafactor.cpp", "AdafactorOptimizer"): {STEP: "gathered_ squares_ squares_there_", START: "begin_ numel_"},
    ("weft/nn/flat/flat_block.h", "FlatPart"): {
        SAVED: "master",
        STEP: "weights shard inner",  # made from the master weights
        START: "owned begin numel whole_numel",
    },
    ("weft/nn/flat/flat_block.h", "FlatBlock"): {
        SAVED: "frozen",
        STEP: "gradients all_gradients owned_gradients uses wide_statistics gradients_empty",  # wide statistics are set from the weights
        START: "groups params statistics first_user",
    },
    ("weft/train/trainer/trainer_state.h", "TrainerState"): {
        SAVED: "steps_done shift registered model updater engine",  # the shift as samples
        STEP: "staging saving submitted next_copy phase engine_shift average_stands_in own_thread hands_out kept_gradients",  # nothing is saved while an average stands in
        START: "mesh pending optimizer options batches groups data_ranks data_rank rank program programs parameters has_trained threads settings uploads",
        REPORTED: "has_compared has_compared_evaluated half_loaded attempts results audit divisor",
    },
    ("weft/train/run/train.cpp", "Run"): {
        SAVED: "state_ trainer_ figures_",  # its noise scale is in state_
        STEP: "loader_ evaluation_",  # a loader is made at the step at which the run resumes
        START: "recipe_ options_ target_ lengths_ batches_ plan_ held_mb_ layout_ device_ world_ mesh_ data_ held_ saver_",
        REPORTED: "records_ traced_ looks_ report_ results_ running_ seconds_before_ times_ told_",
    },
    ("weft/train/save/run_state.h", "RunState"): {SAVED: "name clock loss evaluation others best noise recipe data"},
    ("weft/recipe/run_length.h", "RunClock"): {SAVED: "steps samples tokens epochs seconds"},
    ("weft/data/sampler.h", "Sampler"): {START: "size_ options_ half_bits_"},
}


def body(text, name):
    """Text between the braces of the class, without the contents of nested braces."""
    begin = re.search(rf"^(?:class|struct) {name}\b[^;{{]*{{", text, re.MULTILINE)
    if not begin:
        return None
    depth, out = 1, []
    for char in text[begin.end():]:
        depth += (char == "{") - (char == "}")
        if depth == 0:
            break
        if depth == 1 or (depth == 2 and char == "{"):
            out.append(char)
    return "".join(out)


def members(text):
    text = re.sub(r"{}(?!\s*[;,])", ";", re.sub(r"//.*", "", text))  # functions end with their bodies
    found = []
    for statement in re.split(r";|(?:public|private|protected):", text):
        statement = " ".join(statement.split())
        value = re.match(r"(?:const |mutable )?[\w:]+(?:<.*>)?[ &*]+((?:\w+, )*\w+)(?: =.*| ?{.*)?$", statement)
        if value and not re.match(r"(using|friend|return|explicit|virtual|static|enum|class|struct|template)\b", statement):
            found += value.group(1).split(", ")
    return found


wrong = []
for (file, name), table in MEMBERS.items():
    inside = body((ROOT / file).read_text(), name)
    if inside is None:
        wrong.append(f"{file} has no class {name}")
        continue
    known, there = " ".join(table.values()).split(), members(inside)
    wrong += [f"{name}::{member} ({file}) is new: list it here as saved or not" for member in there if member not in known]
    wrong += [f"{name}::{member} is no longer in {file}" for member in known if member not in there]
print("\n".join(wrong) or f"{sum(len(' '.join(t.values()).split()) for t in MEMBERS.values())} members are accounted for")
sys.exit(1 if wrong else 0)
