"""What treadle does: runs are begun, driven step by step, ended, landed, recovered and shown.

Other packages use of it what is listed here, and nothing else. Imports stay direct, so that a
command loads only what it needs.

    approval: Entered enter
    autoland: land_or_ask
    elsewhere.archive: RUNS Shelf folder load_driver name_of of_step order_name place_of put seal
    elsewhere.fleet_run: FleetOrder Ticket WORKER bring_commit bring_here call_off described
    elsewhere.fleet_run: give_back insert is_claimable look needs_of order_of peek priority_of
    elsewhere.fleet_run: providers_of read_described record requeue restore signed take
    goals: Refused asked_of_task rebase_run require_sandbox resume_run run_again run_goal run_tasks
    goals: run_tries send_back
    health: FoundTool Preview answer_document attempt command_line examine find_tools
    health: health_document login_state preview
    interrupts: Interrupts
    landing.forge: FoundIssue PullState
    landing.land: Landed Undone land undo
    landing.rebase: Rebased
    landing.several: Left in_order land_several
    landing.tracker: names put_in read take_out
    letters: hand_over is_letter
    lock: MAIL call_off_waiter hold holder is_abandoned waiters
    notices: COLLECTOR FAILED digest has_collector send work_ended
    prune: UnlandedWork apply_daily prune
    pull_request: Proposed find_issue find_issues look propose proposed send_back waiting
    recording: export order require_known unpack
    recovery.recover: adopt_uploaded
    recovery.repair: bring_task message_row repair
    run.begin: Extras begin_run check_possible new_row prepare
    run.comments: Comment add read review unheard
    run.confinement: capped reading require_closed sandbox_of
    run.days: recall
    run.memory: ClaimCount Clash HELD_DIFF Held PROTECTED_DIFF Progress RunMemory SUPERSEDED Spent
    run.memory: WAITS_FOR_APPROVAL Watch clashes due_runs is_over is_queued may_land
    run.memory: next_commands nobody recall word
    run.night: limits_document
    run.order: MessageOrder Order Script freeze freeze_script held_to lowered with_note
    run.outage: DOWN UNREADY holding require
    run.resume: load_run resume_run take_over
    run.run: Archive Run Tools reach
    run.run_files: Manifest
    run.step_folder: MESSAGE_FILE OUTBOX
    session: beside opened
    show.changes: RunChanges run_changes
    show.compare: document find_tried landing_run next_commands table
    show.ends: FailedCommand failed_commands failed_routine landing_command last_lines unlanded
    show.ends: unlanded_document
    show.figures: prometheus
    show.report: markdown tail
    show.status: WaitingWork WorkingRun last_night stopped_runs waiting_commands
    show.status: waiting_tasks working
    show.verdicts: SeenCriterion StepVerdict last_check run_verdicts step_verdict
    show.view: CriterionView Explanation MAX_DAYS asked_order cost_document counts criteria
    show.view: events_document explain find_run require_chain run_document runs_document
    show.view: step_document step_output told_step total_usage usage_words ways_on
    telemetry: MARK export
    verify: Accepted SeenNow Verified accepted see verify
    wheel.commit: Finished
    wheel.end: tell_desk
    wheel.loop: drive_run finish_run record_step stop_run take_step turns
"""
